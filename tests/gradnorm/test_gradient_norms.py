"""Exactness of the norms, against one-sample autograd in double precision."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from model_state import same, snapshot
from nets import CLASSES, NETS, Mixed, Overwritten, Slope, vectors
from torch import nn

import steepest
from steepest.errors import InputError, ModelError, NonFiniteError, UnknownNameError
from steepest.gradnorm import reference_norms
from steepest.gradnorm.watch.uses import Use
from steepest.gradnorm.watch.watch import Watch
from steepest.models import build


def settle(model: nn.Module) -> nn.Module:
    """Give normalisation layers statistics that are not 0 and 1."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.2)
    return model.eval()


def make(name: str, samples: int = 5):
    torch.manual_seed(sum(map(ord, name)))
    net, draw = NETS[name]
    return settle(net()), draw(samples)


def to_double(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def relative_error(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float(((found.double() - truth).abs() / truth.abs().clamp_min(1e-12)).max())


@pytest.mark.parametrize("norm", ["l2", "tensor-sum"])
@pytest.mark.parametrize("name", NETS)
def test_norms_equal_one_sample_autograd(name, norm):
    model, x = make(name)
    exact = copy.deepcopy(model).double()
    truth = reference_norms(exact, to_double(x), norm=norm)
    assert truth.min() > 0
    assert relative_error(steepest.gradient_norms(model, x, norm=norm), truth) < 1e-5
    assert relative_error(steepest.gradient_norms(exact, to_double(x), norm=norm), truth) < 1e-10


def test_resnet18_norms_equal_one_sample_autograd():
    model = settle(build("cifar-resnet18", classes=10, channels=3, seed=0))
    torch.manual_seed(0)
    x = torch.randn(3, 3, 32, 32)
    exact = copy.deepcopy(model).double()
    truth = reference_norms(exact, x.double())
    assert relative_error(steepest.gradient_norms(model, x), truth) < 1e-5
    assert relative_error(steepest.gradient_norms(exact, x.double()), truth) < 1e-10


@pytest.mark.parametrize("name", NETS)
def test_per_tensor_norms_have_a_column_for_each_trainable_parameter(name):
    model, x = make(name)
    model, x = model.double(), to_double(x)
    found = steepest.gradient_norms(model, x, norm="per-tensor")
    trainable = [n for n, p in model.named_parameters() if p.requires_grad]
    assert found.shape == (len(x), len(trainable))
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["depthwise", "transformer", "lstm", "mixed"])
@pytest.mark.parametrize("loss", ["expected", "pseudo-label", "cross-entropy"])
def test_all_losses_agree_with_the_reference(name, loss):
    model, x = make(name)
    model, x = model.double(), to_double(x)
    targets = torch.arange(len(x)) % CLASSES if loss == "cross-entropy" else None
    truth = reference_norms(model, x, loss, targets=targets)
    found = steepest.gradient_norms(model, x, loss, targets=targets)
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-13)


def test_expected_loss_is_the_entropy_under_cross_entropy():
    model, x = make("depthwise")
    model, x = model.double(), x.double()
    torch.testing.assert_close(
        steepest.gradient_norms(model, x, "expected"),
        steepest.gradient_norms(model, x, "entropy"),
        rtol=1e-12,
        atol=0,
    )


def test_norm_vanishes_for_uniform_and_for_certain_predictions():
    model = nn.Linear(3, 4, bias=False).double().eval()
    with torch.no_grad():
        model.weight.copy_(torch.eye(4, 3))
    x = torch.tensor([[0.0, 0, 0], [900.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    uniform, certain, between = steepest.gradient_norms(model, x).tolist()
    assert uniform == 0
    assert certain == 0
    assert between > 0.1


@pytest.mark.parametrize("microbatch", [1, 2, 3, 100])
def test_microbatches_change_nothing(microbatch):
    model, x = make("depthwise", samples=7)
    model, x = model.double(), x.double()
    targets = torch.arange(7) % CLASSES
    whole = steepest.gradient_norms(model, x, "cross-entropy", targets=targets)
    split = steepest.gradient_norms(
        model, x, "cross-entropy", targets=targets, microbatch=microbatch
    )
    torch.testing.assert_close(split, whole, rtol=1e-12, atol=0)


def test_callable_losses_get_outputs_and_targets():
    model, x = make("mixed")
    model, x = model.double(), x.double()
    y = torch.arange(5) % CLASSES

    def squared(outputs, targets):
        return (outputs["logits"] - nn.functional.one_hot(targets, CLASSES)).square().sum(1)

    torch.testing.assert_close(
        steepest.gradient_norms(model, x, squared, targets=y),
        reference_norms(model, x, squared, targets=y),
    )
    with pytest.raises(InputError, match="reduction='none'"):
        steepest.gradient_norms(model, x, lambda out: out["logits"].sum())


def test_several_inputs_may_be_positional_or_named():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, left, right):
            return self.a(left) * self.b(right)

    model, left, right = Two().eval(), vectors(4), vectors(4)
    positional = steepest.gradient_norms(model, (left, right))
    named = steepest.gradient_norms(model, {"right": right, "left": left})
    assert torch.equal(positional, named)
    torch.testing.assert_close(positional, reference_norms(model, (left, right)))


def test_one_and_no_samples_work():
    model, x = make("depthwise")
    one = steepest.gradient_norms(model, x[:1])
    torch.testing.assert_close(one, steepest.gradient_norms(model, x)[:1])
    assert steepest.gradient_norms(model, x[:0]).shape == (0,)
    assert steepest.gradient_norms(model, x[:0], norm="per-tensor").shape[0] == 0


def test_overwritten_input_is_an_error_not_a_wrong_number():
    with pytest.raises(ModelError, match=r"overwrites in place .*first\.weight"):
        steepest.gradient_norms(Overwritten().eval(), vectors(4))


def test_inside_no_grad_and_inference_mode_the_result_is_the_same():
    model, x = make("depthwise")
    expected = steepest.gradient_norms(model, x)
    with torch.no_grad():
        assert torch.equal(steepest.gradient_norms(model, x), expected)
    with torch.inference_mode():
        assert torch.equal(steepest.gradient_norms(model, x.clone()), expected)


def test_the_model_is_left_as_found_also_after_an_exception():
    model, x = make("mixed")
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    before = snapshot(model)
    steepest.gradient_norms(model, x)
    assert same(snapshot(model), before)

    def explode(outputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steepest.gradient_norms(model, x, explode)
    with pytest.raises(RuntimeError):
        steepest.gradient_norms(model, x[..., :3])
    assert same(snapshot(model), before)


def test_layers_with_foreign_hooks_or_a_new_forward_are_still_exact():
    model, x = Slope().eval().double(), vectors(4).double()
    model.body[0].register_forward_hook(lambda _m, _i, out: out * 3)
    model.body[2].forward = lambda t: nn.functional.linear(t, model.body[2].weight * 2)
    torch.testing.assert_close(steepest.gradient_norms(model, x), reference_norms(model, x))


def test_weight_norm_is_measured_on_its_own_parameters():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 4)
    )
    model, x = model.eval().double(), vectors(4).double()
    torch.testing.assert_close(steepest.gradient_norms(model, x), reference_norms(model, x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, x: (m.train(), x), "model.eval"),
        (lambda m, x: (m.requires_grad_(requires_grad=False), x), "no trainable parameter"),
        (lambda m, x: (m, x.fill_(float("nan"))), "inputs hold NaN"),
        (lambda m, x: (m, x.numpy()), "must be a tensor"),
        (lambda m, x: (nn.Sequential(m, nn.Flatten(0)).eval(), x), "logits have shape"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(change, message):
    model, x = change(*make("depthwise"))
    with pytest.raises((InputError, ModelError), match=message) as caught:
        steepest.gradient_norms(model, x)
    assert "\n" not in str(caught.value)


def test_batch_norm_in_training_mode_is_named_by_its_path():
    model, x = make("depthwise")
    model.body[1].train()
    with pytest.raises(ModelError, match=r"'body\.1' \(BatchNorm2d\)"):
        steepest.gradient_norms(model, x)


def test_batch_statistics_in_eval_mode_are_refused():
    model = nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 4)).eval()
    with pytest.raises(ModelError, match="batch statistics"):
        steepest.gradient_norms(model, vectors(4))


def test_a_model_that_mixes_its_samples_is_refused():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            return self.layer(x - x.mean(0))

    with pytest.raises(ModelError, match="other samples"):
        steepest.gradient_norms(Mixing().eval(), vectors(4))


def test_outputs_without_logits_are_refused():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            return self.layer(x), x

    with pytest.raises(ModelError, match="neither a tensor nor carries 'logits'"):
        steepest.gradient_norms(Pair().eval(), vectors(4))


def test_bad_weights_and_names_are_refused():
    model, x = Mixed().eval(), torch.randn(3, 5, 6)
    with pytest.raises(UnknownNameError, match="did you mean 'entropy'"):
        steepest.gradient_norms(model, x, "entropi")
    with pytest.raises(UnknownNameError, match="tensor-sum"):
        steepest.gradient_norms(model, x, norm="tensorsum")
    with pytest.raises(InputError, match="needs targets"):
        steepest.gradient_norms(model, x, "cross-entropy")
    with pytest.raises(InputError, match="takes no targets"):
        steepest.gradient_norms(model, x, targets=torch.zeros(3, dtype=torch.long))
    with pytest.raises(InputError, match="4 classes"):
        steepest.gradient_norms(model, x, "cross-entropy", targets=torch.tensor([0, 1, 9]))
    with pytest.raises(InputError, match="2 targets for 3 samples"):
        steepest.gradient_norms(model, x, "cross-entropy", targets=torch.tensor([0, 1]))
    with pytest.raises(InputError, match="microbatch"):
        steepest.gradient_norms(model, x, microbatch=0)
    model.head.weight.data[0, 0] = float("inf")
    with pytest.raises(NonFiniteError, match=r"head\.weight"):
        steepest.gradient_norms(model, x)


def test_nothing_of_a_measurement_stays_behind():
    """A node that is kept alive would hold its graph, and stand in the way of CUDA graphs."""
    model, x = NETS["transformer"][0]().eval(), NETS["transformer"][1](4)
    norms = steepest.gradnorm.GradientNorms(model)
    gc.collect()
    before = count_of_graph_parts()
    for _ in range(3):
        norms(x)
    gc.collect()
    assert count_of_graph_parts() == before


def count_of_graph_parts():
    kinds = [type(thing) for thing in gc.get_objects()]
    return sum(kind in (Use, Watch) or kind.__name__ == "AccumulateGrad" for kind in kinds)

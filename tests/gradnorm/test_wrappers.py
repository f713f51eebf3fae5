"""Wrapped models: measured as what is within them, or refused with the remedy."""

from functools import partial

import pytest
import torch
from torch import distributed, nn

import steepest
from steepest.errors import ModelError
from steepest.gradnorm import GradientNorms, reference_norms


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double().eval()


def vectors() -> torch.Tensor:
    return torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def one_process():
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Compiled(nn.Module):
    """Holds a model as torch.compile does, which takes seconds to come."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x):
        return self._orig_mod(x)


WRAPPERS = {
    "replicas": nn.DataParallel,
    "processes": nn.parallel.DistributedDataParallel,
    "compiled processes": lambda m: Compiled(nn.parallel.DistributedDataParallel(m)),
    "processes of a compiled one": lambda m: nn.parallel.DistributedDataParallel(Compiled(m)),
}


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_model_spread_over_devices_is_measured_as_what_is_spread(wrap):
    model, x = small(), vectors()
    truth = reference_norms(model, x)
    wrapped = wrap(model).eval()
    measure = GradientNorms(wrapped)
    torch.testing.assert_close(measure(x), truth)
    assert measure.engine.model is model
    assert measure.engine.names == [name for name, _ in model.named_parameters()]


class PerSample:
    """Does with hooks what Opacus does."""

    hooks_enabled = True

    def capture_backprops_hook(self, module, _entered, _left, *, loss_reduction):
        if self.hooks_enabled:
            raise ValueError(f"No activations detected for {type(module)}, {loss_reduction}")


def test_hooks_of_opacus_are_refused_until_they_are_disabled():
    model, x, hooks = small(), vectors(), PerSample()
    truth = reference_norms(model, x)
    hook = partial(hooks.capture_backprops_hook, loss_reduction="mean")
    model[2].register_full_backward_hook(hook)
    with pytest.raises(ModelError, match=r"to_standard_module.*disable_hooks"):
        steepest.gradient_norms(model, x)
    with pytest.raises(ModelError, match=r"to_standard_module.*disable_hooks"):
        steepest.select(model, x, k=2, strategy="entropy-gradnorm")
    hooks.hooks_enabled = False
    torch.testing.assert_close(steepest.gradient_norms(model, x), truth)


def sharded(model: nn.Sequential) -> nn.Module:
    """Name a model as those are named whose weights are in parts."""
    kind = type("FSDPModule", (nn.Sequential,), {})
    return kind(*model)


def offloaded(model: nn.Sequential) -> nn.Module:
    """Do what accelerate does: real weights are there during the call alone."""
    layer, weights = model[0], dict(model[0].named_parameters())
    layer._hf_hook = object()
    layer.to("meta")
    layer.forward = lambda x: nn.functional.linear(x, **weights)
    return model


def exported(model: nn.Sequential) -> nn.Module:
    """Do what torch.export does, which takes seconds to come."""
    model.train()
    model.eval = lambda: model
    return model


class Copies(nn.Module):
    """Computes with copies of its weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x):
        copies = {n: p.detach().clone().requires_grad_() for n, p in self.model.named_parameters()}
        return torch.func.functional_call(self.model, copies, (x,))


class Trainer(nn.Module):
    """Has steps for training, and no forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (sharded, "FSDPModule holds its weights in parts.*full_state_dict=True"),
        (offloaded, "Linear are offloaded.*without device_map"),
        (Copies, "no trainable parameter gets a gradient.*give the plain module"),
        (Trainer, "give it a forward"),
        (exported, "give the module that it was made from"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_remedy(wrap, message):
    model = wrap(small()).eval()
    with pytest.raises(ModelError, match=message) as caught:
        steepest.gradient_norms(model, vectors())
    assert "\n" not in str(caught.value)

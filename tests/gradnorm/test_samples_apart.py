"""Every sample goes through the model alone, and outputs come back as those of a batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.errors import ModelError
from steepest.gradnorm import GradientNorms, engine, reference_norms

CLASSES, WIDTH = 3, 4


class Own(nn.Module):
    """Two layers around what is given."""

    def __init__(self, run) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self.enter(x)))


def made(run) -> nn.Module:
    torch.manual_seed(0)
    return Own(run).double().eval()


def samples(count: int = 6) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(1)).double()


def check(model: nn.Module, x: Tensor) -> engine.Engine:
    norms = GradientNorms(model, norm="per-tensor")
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(norms(x), truth, rtol=1e-9, atol=1e-13)
    return norms.engine


def if_all_are_small(h: Tensor) -> Tensor:
    """Skip what changes nothing where all are small."""
    return h if bool((h.abs() < 0.5).all()) else torch.where(h.abs() < 0.5, h, h.abs())


def if_any_is_large(h: Tensor) -> Tensor:
    return h.clamp(-0.5, 0.5) if bool((h.abs() > 0.5).any()) else h


def by_sum(h: Tensor) -> Tensor:
    return h if (h.abs() < 0.5).sum() == h.numel() else torch.where(h.abs() < 0.5, h, h.abs())


@pytest.mark.parametrize("run", [if_all_are_small, if_any_is_large, by_sum])
def test_a_decision_that_changes_nothing_costs_no_loop(run):
    x = samples() * torch.tensor([3.0, 0.01, 3.0, 0.01, 3.0, 0.01])[:, None]
    torch.manual_seed(0)
    model = Own(run).double().eval()
    with torch.no_grad():
        model.enter.bias.zero_()
    assert check(model, x).slow_names() == []


@pytest.mark.parametrize("large", [[0], [2], [5], [1, 2, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("how", [Tensor.all, Tensor.any, lambda flags: flags.sum() > 0])
def test_a_decision_that_matters_is_made_for_each_sample_alone(large, how):
    x = samples()
    x[:, 0] = -1.0
    x[large, 0] = 1.0
    model = made(lambda h: h)
    model.forward = lambda x: model.head(model.enter(x) * (2.0 if bool(how(x[:, 0] > 0)) else 1.0))
    norms = GradientNorms(model, norm="per-tensor")
    truth = reference_norms(model, x, norm="per-tensor")
    try:
        found = norms(x)
    except ModelError as error:  # What it says of these samples depends on the others.
        assert "changes with the other samples" in str(error)  # noqa: PT017 - either is right
        return
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-13)


def test_results_may_be_written_into_what_the_model_makes():
    def written(h: Tensor) -> Tensor:
        out = torch.zeros(len(h), 2, WIDTH, dtype=h.dtype)
        out[:, 0], out[:, 1] = h, h.tanh()
        return out.sum(1)

    assert check(made(written), samples()).slow_names() == []


@pytest.mark.parametrize("count", [2, 6, 20])
def test_statistics_of_the_batch_are_refused_where_a_function_takes_them(count):
    def normalised(h: Tensor) -> Tensor:
        return F.batch_norm(h[:, :, None], None, None, training=True)[..., 0]

    def weighted(h: Tensor) -> Tensor:
        return F.batch_norm(
            h.unflatten(1, (2, 2)), None, None, torch.ones(2).double(), training=True
        ).flatten(1)

    for run in (normalised, weighted):
        with pytest.raises(ModelError):
            GradientNorms(made(run))(samples(count))


class Doubled(torch.autograd.Function):
    """A function without any word on vmap."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_functions_of_the_users_own_are_run_as_they_are():
    before = torch.autograd.Function.__dict__["apply"]
    assert check(made(lambda h: 1 * Doubled.apply(h)), samples()).slow_names() == []
    assert check(made(Doubled.apply), samples()).slow_names()  # Taken from the class before.
    assert torch.autograd.Function.__dict__["apply"] is before


class States(nn.Module):
    """Returns all that a recurrent layer does, the samples second."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.LSTM(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.read(x.transpose(0, 1))


@pytest.mark.parametrize("steps", [1, 6, 4])
def test_a_loss_sees_outputs_as_those_of_a_batch(steps):
    def loss(outputs: tuple[Tensor, tuple[Tensor, Tensor]]) -> Tensor:
        every, (last, memory) = outputs
        assert every.shape[1:] == last.shape[1:] == memory.shape[1:]
        return (every.square().sum(0) + last[0] * memory[0]).sum(1)

    torch.manual_seed(0)
    model, x = States().double().eval(), samples(6 * steps).view(6, steps, WIDTH)
    found = GradientNorms(model, loss)(x)
    torch.testing.assert_close(found, reference_norms(model, x, loss), rtol=1e-9, atol=0)


def test_a_batch_that_parts_takes_the_loop_and_the_third_is_the_last_attempt(monkeypatch):
    tried, honest = [], engine.Engine.by_rules
    monkeypatch.setattr(engine.Engine, "by_rules", lambda *given: tried.append(1) or honest(*given))
    model = made(lambda h: torch.stack([one[one > 0].sum() + one for one in h]))
    norms = GradientNorms(model, norm="per-tensor")
    for _ in range(5):
        x = samples()
        truth = reference_norms(model, x, norm="per-tensor")
        torch.testing.assert_close(norms(x), truth, rtol=1e-9, atol=1e-13)
        assert norms.engine.slow_names() == norms.engine.names
    assert len(tried) == 3


def test_hooks_that_a_forward_pass_leaves_are_taken_away():
    model = made(torch.tanh)

    def leave(h: Tensor) -> Tensor:
        if "hooked" not in vars(model):
            model.hooked = True
            model.head.register_forward_hook(lambda _, __, out: out * 1.0)
        return h

    model.run = leave
    check(model, samples())
    assert not model.head._forward_hooks


def test_a_decision_that_matters_is_noticed_where_rounding_is_coarse():
    """As on a GPU, where norms of single samples are too coarse to be compared."""
    torch.manual_seed(0)
    model, x = Own(torch.tanh).eval(), samples(12).float()
    x[:, 0] = -1.0
    x[9:, 0] = 1.0  # None of the samples that are run side by side first decides otherwise.
    inner = model.forward
    model.forward = lambda x: inner(x) * (3.0 if bool((x[:, 0] > 0).any()) else 1.0)
    norms = GradientNorms(model, precision="bf16")
    torch.testing.assert_close(norms(x[:9]), reference_norms(model, x[:9]), rtol=5e-2, atol=0)
    for _ in range(2):
        torch.testing.assert_close(norms(x), reference_norms(model, x), rtol=5e-2, atol=0)

"""Models that compute in half precision, or in several: the same numbers, on the same quick way."""

from __future__ import annotations

import copy

import pytest
import torch
from test_half_precision import ROUNDING, Sure, Unwatched
from torch import Tensor, nn
from torch.nn import functional as F

import steepest
from steepest.errors import ModelError, NonFiniteError
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.recorded import form_of
from steepest.gradnorm.watch.uses import _like
from steepest.modules.precision import Coarseness, allowed

pytestmark = pytest.mark.usefixtures("own_products")


@pytest.fixture
def own_products():
    """Multiply without oneDNN: virtual machines may claim instructions that they do not have."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)


class Casting(nn.Module):
    """Casts within, and returns single precision, as many models do."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, *, autocast: bool) -> None:
        super().__init__()
        self.model, self.dtype, self.autocast = model, dtype, autocast
        if not autocast:
            model.to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.autocast):
            return self.model(x if self.autocast else x.to(self.dtype)).float()


def whole_numbers(samples: int = 24) -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randint(-2, 3, (samples, 6), generator=random).float()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("kind", [Sure, Unwatched])
def test_sure_samples_keep_their_gradients_where_logits_are_cast_at_the_end(kind, autocast):
    x = whole_numbers()
    truth = reference_norms(kind(2).double().eval(), x.double(), norm="per-tensor")
    assert 0 < truth.sum(1).min() < 1e-12
    model = Casting(kind(2), torch.float16, autocast=autocast).eval()
    for measure in (steepest.gradient_norms, reference_norms):
        found = measure(model, x, norm="per-tensor").double()
        torch.testing.assert_close(found, truth, rtol=ROUNDING, atol=0)


class Bent(torch.autograd.Function):
    """Its gradient is none of a power of two of what arrives."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1e-3, 1e-3)


def test_a_gradient_in_single_precision_is_not_scaled_where_nothing_is_cast():
    torch.manual_seed(0)
    body, head = nn.Linear(6, 5).double(), nn.Linear(5, 4).double()

    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = body, head

        def forward(self, x):
            return self.head(Bent.apply(self.body(x)))

    x = whole_numbers(3).double()
    value = F.cross_entropy(head(Bent.apply(body(x[:1]))), torch.tensor([2]))
    grads = torch.autograd.grad(value, [*body.parameters(), *head.parameters()])
    size = torch.cat([g.flatten() for g in grads]).norm()
    found = steepest.gradient_norms(
        Clipped().eval(), x[:1], "cross-entropy", targets=torch.tensor([2])
    )
    torch.testing.assert_close(found[0], size)


class Wobbly(nn.Module):
    """Rounds otherwise in larger batches, as matrix products do."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.body, self.head, self.step = nn.Linear(6, 8), nn.Linear(8, 4), step

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(self.body(x).tanh())
        return logits * (1 + self.step) if len(x) > 2 else logits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
def test_rounding_is_not_taken_for_a_mixture_of_samples_or_a_wrong_measure(dtype, autocast):
    torch.manual_seed(0)
    step = 3 * torch.finfo(dtype).eps
    model = Casting(Wobbly(step), dtype, autocast=autocast).eval()
    norms = GradientNorms(model, verify=4)
    assert norms(whole_numbers(8)).isfinite().all()
    assert norms.engine.slow_names() == []


@pytest.mark.parametrize(("dtype", "step"), [(torch.float32, 0.01), (torch.bfloat16, 0.4)])
def test_more_than_rounding_is_refused_in_any_precision(dtype, step):
    torch.manual_seed(0)
    with pytest.raises(ModelError, match="other samples of its batch"):
        GradientNorms(Wobbly(step).to(dtype).eval())(whole_numbers(8).to(dtype))


def test_however_coarse_numbers_are_a_quarter_is_another_number():
    assert allowed(1e-3, torch.finfo(torch.float32).eps) == 1e-3
    assert allowed(1e-3, torch.finfo(torch.float8_e5m2).eps) == 0.25


def test_numbers_are_as_coarse_as_what_they_are_cast_to_within_a_function():
    with Coarseness() as seen:
        torch.ones(3).tanh()
        assert seen.worst == torch.finfo(torch.float32).eps
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.ones(3).tanh().dtype == torch.float32
    assert seen.worst == torch.finfo(torch.bfloat16).eps


class Ruleless(nn.Module):
    """Functions without a rule, which are run again for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.mix = nn.GRU(6, 5, batch_first=True), nn.Parameter(torch.randn(5, 5))
        self.inner, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recurrent(x)
        return self.head((self.mix @ self.inner(states).transpose(1, 2)).mean(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_cast_within_the_model_is_cast_when_it_is_run_again(dtype):
    torch.manual_seed(0)
    model, x = Ruleless().eval(), torch.randn(5, 3, 6)
    truth = reference_norms(copy.deepcopy(model).double(), x.double(), norm="per-tensor")
    norms = GradientNorms(Casting(model, dtype, autocast=True).eval(), norm="per-tensor")
    off = (norms(x).double() - truth).abs() / truth.norm(dim=1, keepdim=True)
    assert off.max() < 4 * torch.finfo(dtype).eps
    assert norms.engine.slow_names() == []


def test_attention_that_asks_for_types_stays_on_the_quick_way_in_mixed_precision():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(),
        nn.Linear(24, 3),
    ).eval()  # fmt: skip
    norms = GradientNorms(model, precision="bf16")
    x = torch.randn(5, 3, 6)
    truth = reference_norms(copy.deepcopy(model).double(), x.double())
    torch.testing.assert_close(norms(x).double(), truth, rtol=0.05, atol=0)
    assert norms.engine.slow_names() == []


def test_faint_samples_are_found_in_their_rows_in_half_precision():
    def faint(outputs):
        return outputs.double().sin().sum(1) * 2.0**-23

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).half().eval()
    norms = GradientNorms(model, faint)
    assert (norms(whole_numbers().half()) > 0).all()
    assert norms.engine.slow_names() == []


class Padded(nn.Module):
    """What is padded has a gradient beyond half precision, which nothing collects."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 3)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([-8.0, 0.0, 8.0])[:, None])

    def forward(self, tokens: Tensor) -> Tensor:
        steep = torch.where(tokens == 0, 6e4, 1.0).to(self.head.weight.dtype)
        return self.head((self.words(tokens) * steep[..., None]).sum(1))


def test_a_padded_row_has_no_gradient_however_large_it_would_be():
    torch.manual_seed(0)
    model, tokens = Padded().half().eval(), torch.tensor([[0, 1, 2], [3, 0, 0], [4, 4, 1]])
    truth = reference_norms(copy.deepcopy(model).double(), tokens, "pseudo-label")
    found = steepest.gradient_norms(model, tokens, "pseudo-label")
    torch.testing.assert_close(found.double(), truth, rtol=0.05, atol=0)


def test_gradients_beyond_half_precision_are_refused_with_a_remedy():
    class Steep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(6, 4, bias=False), nn.Linear(4, 3)
            with torch.no_grad():
                self.body.weight.mul_(2.0**-14)

        def forward(self, x):
            return self.head(self.body(x) * 2.0**9 * 2.0**9)

    torch.manual_seed(0)
    model, x = Steep().eval(), whole_numbers(3)
    assert steepest.gradient_norms(model, x).isfinite().all()
    with pytest.raises(NonFiniteError, match=r"outputs, or give copy.deepcopy\(model\).float"):
        steepest.gradient_norms(model.half(), x.half())


def test_what_all_samples_share_keeps_its_precision():
    mean, g = torch.randn(4), torch.randn(2, 4).bfloat16()
    assert _like(mean, g, of_samples=False) is mean
    assert _like(torch.randn(2, 4), g, of_samples=True).dtype == torch.bfloat16
    assert _like(mean.half(), g.float(), of_samples=False).dtype == torch.float32


class Bytes(nn.Module):
    """A weight that is kept in eight bits, beside others."""

    def __init__(self, *, more: bool) -> None:
        super().__init__()
        self.small = nn.Parameter(torch.randn(4, 6).to(torch.float8_e4m3fn))
        self.scale = nn.Parameter(torch.rand(4, dtype=torch.float64)) if more else None

    def forward(self, x: Tensor) -> Tensor:
        logits = F.linear(x.float(), self.small.float())
        return logits if self.scale is None else logits * self.scale


@pytest.mark.parametrize(("more", "dtype"), [(False, torch.float32), (True, torch.float64)])
def test_results_are_in_the_finest_precision_of_the_parameters(more, dtype):
    torch.manual_seed(0)
    model, x = Bytes(more=more).eval(), torch.randn(3, 6)
    found, truth = steepest.gradient_norms(model, x), reference_norms(model, x)
    assert found.dtype == truth.dtype == dtype
    torch.testing.assert_close(found, truth, rtol=0.1, atol=0)
    scored = steepest.score(model, x.numpy(), progress=False).values
    torch.testing.assert_close(torch.as_tensor(scored, dtype=dtype), found)


class Part(Wobbly):
    """A part in single precision, and a parameter in double precision."""

    def __init__(self) -> None:
        super().__init__(4e-6)
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float()).double() * self.scale


def test_a_part_in_single_precision_passes_verification_beside_double_precision():
    torch.manual_seed(0)
    found = GradientNorms(Part().eval(), verify=8)(whole_numbers(8).double())
    assert found.dtype == torch.float64


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
def test_a_scripted_model_with_running_statistics_is_measured():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double().eval()
    x = torch.randn(4, 6).double()
    found = steepest.gradient_norms(torch.jit.script(model), x)
    torch.testing.assert_close(found, reference_norms(model, x))


def test_batches_of_other_names_have_a_recording_of_their_own():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert form_of({"x": x, "y": y}) == form_of({"x": y, "y": x})
    assert form_of({"x": x, "y": y}) != form_of({"y": y, "x": x})
    assert form_of((x, y)) == form_of([y, x])

"""In what precision to multiply, and that the process's own settings come back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import ModelError, UnknownNameError
from steepest.gradnorm import GradientNorms
from steepest.modules.precision import computing_in

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def own_products():
    """Multiply without oneDNN: virtual machines may claim instructions that they do not have."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)


def settings():
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.is_autocast_enabled("cpu"),
    )


@pytest.fixture(params=["highest", "high", "medium"])
def own(request):
    """Settings of the user's own."""
    before = settings()
    torch.set_float32_matmul_precision(request.param)
    torch.backends.cudnn.allow_tf32 = request.param == "medium"
    yield settings()
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def make():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)
    )
    return net.eval(), torch.randn(6, 2, 4, 4)


@pytest.mark.parametrize(
    ("precision", "inside"),
    [
        ("fp32", ("highest", False, False)),
        ("tf32", ("high", True, False)),
        ("bf16", ("high", True, True)),
    ],
)
def test_settings_hold_inside_and_come_back(own, precision, inside):
    with computing_in(precision, CPU):
        assert settings() == inside
    assert settings() == own
    with pytest.raises(KeyboardInterrupt), computing_in(precision, CPU):
        raise KeyboardInterrupt
    assert settings() == own


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_measurement_leaves_the_settings_alone_also_after_an_error(own, precision):
    model, x = make()
    steepest.gradient_norms(model, x, precision=precision, verify=2)
    assert settings() == own
    with pytest.raises(ModelError):
        steepest.gradient_norms(model, x[:, :1], precision=precision)
    assert settings() == own

    def explode(outputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steepest.gradient_norms(model, x, explode, precision=precision)
    assert settings() == own


@pytest.mark.parametrize(
    ("precision", "inside"),
    [("fp32", "highest"), ("tf32", "high"), ("bf16", "high")],
)
def test_a_plan_is_made_in_single_precision_and_a_batch_measured_as_asked(own, precision, inside):
    model, x = make()
    found = []

    def spread(outputs):
        found.append((len(outputs), torch.get_float32_matmul_precision()))
        return outputs.float().var(1)

    norms = GradientNorms(model, spread, precision=precision)
    norms(x)
    assert {setting for samples, setting in found if 1 < samples < len(x)} == {"highest"}
    assert {setting for samples, setting in found if samples == len(x)} == {inside}
    norms(x)  # The second batch is looked at as well.
    found.clear()
    norms(x)
    assert found == [(len(x), inside)]


def test_single_precision_on_a_cpu_is_the_same_with_and_without_tf32():
    model, x = make()
    found = [steepest.gradient_norms(model, x, precision=name) for name in ("fp32", "tf32")]
    assert torch.equal(*found)


@pytest.mark.parametrize("loss", ["entropy", "pseudo-label"])
def test_half_precision_is_close_but_not_the_same(loss):
    model, x = make()
    exact = steepest.gradient_norms(copy.deepcopy(model).double(), x.double(), loss)
    found = steepest.gradient_norms(model, x, loss, precision="bf16")
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0.03, atol=0)
    assert not torch.allclose(found.double(), exact, rtol=1e-5, atol=0)


def test_half_precision_weights_and_inputs_are_measured():
    model, x = make()
    exact = steepest.gradient_norms(copy.deepcopy(model).double(), x.double())
    found = steepest.gradient_norms(model.bfloat16(), x.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0.05, atol=0)


def test_half_precision_passes_its_own_verification():
    model, x = make()
    norms = GradientNorms(model, precision="bf16", verify=6)
    assert len(norms(x)) == 6


@pytest.mark.parametrize("precision", ["fp16", "BF16", "", "float32"])
def test_an_unknown_name_is_refused_and_the_known_ones_are_named(precision):
    model, _ = make()
    with pytest.raises(UnknownNameError, match=r"precision .*known: bf16, fp32, tf32") as caught:
        GradientNorms(model, precision=precision)
    assert "\n" not in str(caught.value)

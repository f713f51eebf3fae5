"""How a process rounds, taken along to another."""

from __future__ import annotations

import pytest
import torch

from steepest.core.torch_settings import rounding_settings, take_over_rounding


@pytest.fixture
def before():
    settings = rounding_settings()
    yield settings
    take_over_rounding(settings)


def change(name):
    backends = torch.backends
    match name:
        case "matmul":
            torch.set_float32_matmul_precision("high")
        case "tf32":
            backends.cudnn.allow_tf32 = False
        case "one kind of product":
            backends.cuda.matmul.fp32_precision = "tf32"
        case "sums":
            backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        case "attention":
            backends.cuda.enable_flash_sdp(False)
        case "repeatable":
            torch.use_deterministic_algorithms(True, warn_only=True)
        case "threads":
            torch.set_num_threads(torch.get_num_threads() + 1)
        case "default":
            torch.set_default_dtype(torch.float64)


@pytest.mark.parametrize(
    "name",
    [
        "matmul", "tf32", "one kind of product", "sums", "attention", "repeatable", "threads",
        "default",
    ],
)  # fmt: skip
def test_a_setting_goes_along_and_back(name, before):
    change(name)
    changed = rounding_settings()
    assert changed != before
    take_over_rounding(before)
    assert rounding_settings() == before
    take_over_rounding(changed)
    assert rounding_settings() == changed

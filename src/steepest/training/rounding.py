"""Settings of torch that decide how a training rounds, to be taken along to another process."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

_CHOICES = (
    # The older words first: they set some of the newer ones, which may differ all the same.
    "cudnn.allow_tf32",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "cuda.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.matmul.fp32_precision",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation",
    "cudnn.enabled",
)
"""Below ``torch.backends``."""

_ATTENTION = ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp")


def rounding_settings() -> dict[str, Any]:
    """Return the settings of this process, as plain values."""
    return {
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "matmul": _read_matmul(),
        **{name: _read(name) for name in _CHOICES},
        **{name: getattr(torch.backends.cuda, f"{name}_enabled")() for name in _ATTENTION},
    }


def take_over_rounding(settings: Mapping[str, Any]) -> None:
    """Give this process the settings of another.

    Args:
        settings: As ``rounding_settings`` returned them there.
    """
    torch.set_num_threads(settings["threads"])
    torch.set_default_dtype(settings["dtype"])
    torch.use_deterministic_algorithms(settings["deterministic"], warn_only=settings["warn_only"])
    if settings["matmul"] not in (None, _read_matmul()):
        torch.set_float32_matmul_precision(settings["matmul"])
    for name in _CHOICES:
        if settings[name] not in (None, _read(name)):
            owner, _, last = name.rpartition(".")
            setattr(operator.attrgetter(owner)(torch.backends), last, settings[name])
    for name in _ATTENTION:
        getattr(torch.backends.cuda, f"enable_{name}")(settings[name])


def _read(name: str) -> Any:  # noqa: ANN401 - a switch, or a word
    try:
        return operator.attrgetter(name)(torch.backends)
    except (AttributeError, RuntimeError):
        return None  # Not in this version; or set by newer words, and not to be told in older ones.


def _read_matmul() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None

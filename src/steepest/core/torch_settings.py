"""Settings of torch for training: put back afterwards, and carried over to worker processes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.seeds import derive

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


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Give dropout and the like their own random numbers, and repeatable kernels."""
    cudnn = torch.backends.cudnn
    deterministic, benchmark = cudnn.deterministic, cudnn.benchmark
    value = derive(seed, "dropout")
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        try:
            cudnn.deterministic, cudnn.benchmark = True, False
            # torch.manual_seed would reach into every other device's generator too.
            torch.default_generator.manual_seed(value)
            if on_cuda:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(value)
            yield
        finally:
            cudnn.deterministic, cudnn.benchmark = deterministic, benchmark


@contextmanager
def memory_format(model: nn.Module, channels_last: bool) -> Iterator[torch.memory_format]:
    """Lay the weights of convolutions out as asked for, and back again.

    Put back, because the layout decides the order of sums: weights that were saved and loaded
    must give the same logits to the last bit as those that were not.
    """
    dimensions = {p.dim() for p in model.parameters()}
    chosen = torch.contiguous_format
    # A model of images and volumes both has no layout that suits all its inputs.
    if channels_last and not {4, 5} <= dimensions:
        chosen = torch.channels_last_3d if 5 in dimensions else torch.channels_last
    model.to(memory_format=chosen)  # type: ignore[call-overload]
    try:
        yield chosen
    finally:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def lay_out(batch: Tensor, layout: torch.memory_format) -> Tensor:
    """Return a batch in a layout, or contiguous where it has other dimensions than that is for."""
    wanted = {torch.channels_last: 4, torch.channels_last_3d: 5}.get(layout, batch.dim())
    fits = batch.dim() == wanted
    return batch.contiguous(memory_format=layout if fits else torch.contiguous_format)


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

"""Settings of torch for training: put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from steepest.core.seeds import derive


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

"""torch.func: the gradient of one sample's loss, mapped over the batch in chunks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, Step
from steepest.bench.measuring import check_room
from steepest.core.memory import is_out_of_memory

_LARGEST_CHUNK = 128
_WORSE = 1.1


@CONTENDERS.register("vmap")
def prepare_vmap(case: Case) -> Step:
    """Make vmap(grad) ready with the chunk size that was quickest in a short search."""
    norm_of = _per_sample_norm(case)

    def run(inputs: Tensor, chunk: int) -> Tensor:
        with warnings.catch_warnings():
            # It warns of operations that it maps one by one; that is what is measured.
            warnings.simplefilter("ignore")
            norms: Tensor = vmap(norm_of, chunk_size=chunk)(inputs)
        return norms

    chunk = _search_chunk(case, run)
    return Step(lambda: run(case.inputs, chunk), case.samples, f"chunks of {chunk}")


def _per_sample_norm(case: Case) -> Callable[[Tensor], Tensor]:
    parameters = {n: p.detach() for n, p in case.model.named_parameters() if p.requires_grad}

    def loss(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        def model(inputs: Tensor) -> object:
            return functional_call(case.model, values, (inputs,))

        return case.losses(model, sample[None]).sum()

    def norm(sample: Tensor) -> Tensor:
        # Reduced within the map, so that no more than a chunk of gradients is ever held.
        grads: dict[str, Tensor] = grad(loss)(parameters, sample)
        return torch.stack([g.square().sum() for g in grads.values()]).sum().sqrt()

    return norm


def _search_chunk(case: Case, run: Callable[[Tensor, int], Tensor]) -> int:
    """Double the chunk until it no longer pays or no longer fits."""
    weights = sum(p.numel() * p.element_size() for p in case.parameters)
    best, best_seconds = 1, math.inf
    chunk = 1
    while chunk <= min(case.samples, _LARGEST_CHUNK):
        inputs = case.inputs[:chunk]
        try:
            check_room(2 * chunk * weights, case.device)
            run(inputs, chunk)
            seconds = case.clock.seconds_of(lambda x=inputs: run(x, len(x))) / chunk  # type: ignore[misc]
        except (MemoryError, RuntimeError) as error:
            if chunk == 1 or not is_out_of_memory(error):
                raise
            break
        if seconds > _WORSE * best_seconds:
            break
        if seconds < best_seconds:
            best, best_seconds = chunk, seconds
        chunk *= 2
    return best

"""One sample, one forward, one backward: how the paper's authors score."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, Step

_SAMPLES = {"cpu": 4, "cuda": 16}


@CONTENDERS.register("loop")
def prepare_loop(case: Case) -> Step:
    """Make a loop over single samples ready; a few of them speak for all."""
    few = case.inputs[: _SAMPLES[case.device.type]]
    parameters = case.parameters

    def norm_of(sample: Tensor) -> Tensor:
        loss = case.losses(case.model, sample).sum()
        grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
        norms = [torch.linalg.vector_norm(g) for g in grads]
        whole: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return whole

    def run() -> Tensor:
        return torch.stack([norm_of(sample) for sample in torch.split(few, 1)])

    return Step(run, len(few), f"batches of one, measured on {len(few)} samples")

"""A forward pass, and the plain forward and backward pass that is the unit of comparison."""

from __future__ import annotations

import torch

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, UNIT, Step


@CONTENDERS.register("forward")
def prepare_forward(case: Case) -> Step:
    """Make a forward pass without a graph ready."""

    def run() -> None:
        with torch.no_grad():
            case.losses(case.model, case.inputs)

    return Step(run, case.samples)


@CONTENDERS.register(UNIT)
def prepare_plain(case: Case) -> Step:
    """Make a forward and backward pass ready that gives the batch's summed gradient."""
    parameters = case.parameters

    def run() -> None:
        torch.autograd.grad(
            case.losses(case.model, case.inputs).sum(), parameters, allow_unused=True
        )

    return Step(run, case.samples)

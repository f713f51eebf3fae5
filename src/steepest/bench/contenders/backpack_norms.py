"""BackPACK: squared norms of individual gradients by its BatchL2Grad extension."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, Step
from steepest.bench.contenders.stand_ins import out_of_place

_SAVED = "batch_l2"


@CONTENDERS.register("backpack")
def prepare_backpack(case: Case) -> Step:
    """Make BatchL2Grad ready on every layer that has parameters.

    A first-order extension asks nothing of layers without parameters, so that a net with branches
    needs no conversion.
    """
    package = _import()
    model = out_of_place(case.model)
    for module in model.modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            package.extend(module)
    extension = package.extensions.BatchL2Grad()

    def run() -> Tensor:
        with warnings.catch_warnings():
            # Layers without a rule are warned of, and then found missing below.
            warnings.simplefilter("ignore")
            losses = case.losses(model, case.inputs)
            # Its rules multiply what was cast with what was not; autocast evens that out.
            with case.autocast(), package.backpack(extension):
                losses.sum().backward()  # type: ignore[no-untyped-call]
        return _collect(model)

    return Step(run, case.samples)


def _collect(model: nn.Module) -> Tensor:
    """Take the squared norms off the parameters, and return the roots of their sums [N]."""
    squares: list[Tensor] = []
    missing: dict[str, None] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if hasattr(parameter, _SAVED):
                squares.append(getattr(parameter, _SAVED))
                delattr(parameter, _SAVED)
            else:
                missing[type(module).__name__] = None
            parameter.grad = None
    if missing:
        raise NotImplementedError(f"BatchL2Grad has no rule for {', '.join(missing)}")
    return torch.stack(squares, 1).sum(1).sqrt()


def _import() -> Any:  # noqa: ANN401 - an optional package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module("backpack")

"""Hold what the engine measures against what autograd measures, one sample at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from steepest.gradnorm.backward.components import Squares
from steepest.gradnorm.fallback.loop import squares_one_by_one
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import RowLosses
from steepest.modules.precision import allowed, differ

if TYPE_CHECKING:
    from steepest.gradnorm.engine import Engine

_OFF = {torch.float64: 1e-5}
_OFF_SINGLE = 1e-2
_NEGLIGIBLE = 1e-2
"""So much of what is allowed, of a sample's whole gradient, may be rounding in any part of it."""


def is_fine(engine: Engine) -> bool:
    """Say whether an engine computes in single precision at least."""
    exact = engine.dtype in {torch.float32, torch.float64} and engine.precision != "bf16"
    return exact and engine.device.type == "cpu"


def wrong_in_batch(
    engine: Engine,
    fast: set[nn.Parameter],
    rows: Sequence[int],
    inputs: Inputs,
    losses: RowLosses,
    found: Sequence[Squares],
) -> set[nn.Parameter]:
    """Measure some samples of a batch alone; return the parameters that disagree.

    Where rounding is coarse nobody is looked at: there two samples were tried out beforehand, in
    full precision.

    Args:
        engine: Measured the batch.
        fast: The parameters that it measured by rules.
        rows: Which samples.
        inputs: N samples.
        losses: What was measured.
        found: What it found, for each loss.
    """
    wrong: set[nn.Parameter] = set()
    for row in rows if fast and is_fine(engine) else ():
        here = slice(row, row + 1)

        def loss(alone: object, _: slice, here: slice = here) -> list[Tensor]:
            return losses(alone, here)

        one = batches.take(inputs, here)
        alone, _ = squares_one_by_one(engine.restored_call, one, loss, engine.named(fast))
        mine = [{p: s[here] for p, s in squares.items()} for squares in found]
        wrong |= disagreeing(mine, alone, engine.dtype, engine.coarseness)
    return wrong


def disagreeing(
    found: Sequence[Squares], alone: Sequence[Squares], dtype: torch.dtype, coarseness: float
) -> set[nn.Parameter]:
    """Return the parameters whose squared norms [N] differ by more than rounding.

    Args:
        found: By parameter, for each loss.
        alone: The same, measured for each sample alone.
        dtype: The precision of the weights.
        coarseness: Of the numbers that the model computes with.
    """
    rounding = allowed(_OFF.get(dtype, _OFF_SINGLE), coarseness)
    wrong: set[nn.Parameter] = set()
    for mine, truth in zip(found, alone, strict=True):
        either = {**mine, **truth}
        if not either:
            continue
        # Who gets no gradient at all is missing.
        zero = torch.zeros_like(next(iter((truth or mine).values())))
        known = [squares.where(torch.isfinite(squares), zero) for squares in truth.values()]
        size = torch.stack([zero, *known]).sum(0).sqrt()
        for parameter in either:
            got, exact = (_of(parameter, squares, zero) for squares in (mine, truth))
            if bool(differ(got, exact, rounding * (exact + _NEGLIGIBLE * size)).any()):
                wrong.add(parameter)
    return wrong


def _of(parameter: nn.Parameter, squares: Squares, zero: Tensor) -> Tensor:
    return squares.get(parameter, zero).sqrt()

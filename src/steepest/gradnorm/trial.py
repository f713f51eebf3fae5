"""Hold what a plan measures against what autograd measures, one sample at a time.

What a plan is made of was seen from outside. This is the proof that nothing was missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from steepest.gradnorm.components import Squares
from steepest.gradnorm.loop import squares_one_by_one
from steepest.gradnorm.scattered import add_by_row
from steepest.gradnorm.steps import Plan
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import check_independence
from steepest.modules.losses import RowLosses
from steepest.modules.precision import allowed, differ

if TYPE_CHECKING:
    from steepest.gradnorm.engine import Engine

_OFF = {torch.float64: 1e-5}
_OFF_SINGLE = 1e-2
_NEGLIGIBLE = 1e-2
"""So much of what is allowed, of a sample's whole gradient, may be rounding in any part of it."""


def wrong_on_trial(
    engine: Engine, plan: Plan, inputs: Inputs, losses: RowLosses
) -> set[nn.Parameter]:
    """Measure the first and the last sample by a plan and alone; return who disagrees."""
    if _is_fine(engine):
        return set()  # Whole batches are looked at.
    # The first before the last: the probe had them the other way round.
    total = batches.count(inputs)
    ends = torch.tensor([0, total - 1][:total], device=batches.tensors_of(inputs)[0].device)
    some = batches.take(inputs, ends)
    engine.routes.kernels = False
    try:
        _, found, missed = engine.by_rules(plan, some, losses)
        by_row = add_by_row(engine, plan, missed, some, losses, found, first=True)
    finally:
        engine.routes.kernels = True
    fast = set(engine.parameters()) - (plan.slow | missed) | by_row
    if not fast:
        return set()
    alone = squares_one_by_one(engine.restored_call, some, losses, engine.named(fast))
    return _disagreeing(found, alone, _rounding(engine, plan))


def wrong_in_batch(
    engine: Engine,
    plan: Plan,
    fast: set[nn.Parameter],
    inputs: Inputs,
    losses: RowLosses,
    found: Sequence[Squares],
    outputs: Any = None,  # noqa: ANN401 - whatever the model returns
) -> set[nn.Parameter]:
    """Measure the first and the last sample of a batch alone; return who disagrees.

    Where rounding is coarse nobody is looked at: there the trial was made in full precision.

    Args:
        engine: Measured the batch.
        plan: By this.
        fast: The parameters that it measured by rules.
        inputs: N samples.
        losses: What was measured.
        found: What it found, for each loss.
        outputs: What the model returned for the batch, if that is to be looked at as well.

    Raises:
        ModelError: If the model says something else of a sample that is alone.
    """
    if not _is_fine(engine) or not fast:
        return set()
    wrong: set[nn.Parameter] = set()
    for row in sorted({0, batches.count(inputs) - 1}):
        here = slice(row, row + 1)

        def loss(alone: object, _: slice, here: slice = here) -> list[Tensor]:
            check_independence(alone, outputs, here.start, coarseness=plan.coarseness)
            return losses(alone, here)

        one = batches.take(inputs, here)
        alone = squares_one_by_one(engine.restored_call, one, loss, engine.named(fast))
        mine = [{p: s[here] for p, s in squares.items()} for squares in found]
        wrong |= _disagreeing(mine, alone, _rounding(engine, plan))
    return wrong


def _is_fine(engine: Engine) -> bool:
    """Say whether the engine computes in single precision at least."""
    exact = engine.dtype in {torch.float32, torch.float64} and engine.precision != "bf16"
    return exact and engine.device.type == "cpu"


def _rounding(engine: Engine, plan: Plan) -> float:
    return allowed(_OFF.get(engine.dtype, _OFF_SINGLE), plan.coarseness)


def _disagreeing(
    found: Sequence[Squares], alone: Sequence[Squares], rounding: float
) -> set[nn.Parameter]:
    """Return the parameters whose squared norms [N] differ by more than rounding."""
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
            got, exact = (squares.get(parameter, zero).sqrt() for squares in (mine, truth))
            if bool(differ(got, exact, rounding * (exact + _NEGLIGIBLE * size)).any()):
                wrong.add(parameter)
    return wrong

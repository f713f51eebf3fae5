"""Measure parameters that see the samples in any order, or not all of them.

Sentences are packed by length, words are sent to experts, the nodes of many graphs stand in one
list: a plan made from a few samples cannot say where those of the next batch will be. So the batch
at hand is watched without one, and its own gradients tell whose each row is. What they cannot tell
apart is left to the loop.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError, SteepestError
from steepest.gradnorm.components import Squares
from steepest.gradnorm.row_meter import RowMeter
from steepest.gradnorm.sources import Source
from steepest.gradnorm.steps import Plan
from steepest.gradnorm.watch import UnwatchableError, Watch
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import MIXED, is_unusual
from steepest.modules.losses import RowLosses
from steepest.modules.precision import allowed, computing_in, differ, largest

if TYPE_CHECKING:
    from steepest.gradnorm.engine import Engine

_WORTH_A_TRY = 2
"""A single sample is done at once in any case."""

_CALLS_A_SAMPLE = 8
"""More calls with parameters than so many for each sample cost more than the samples do."""

_MANY = 8
"""More than one in so many samples are not odd by rounding alone."""


class _CompanyError(Exception):
    """What the model says of a sample depends on the others of its batch.

    Args:
        mixed: Whether it does for so many that it is not a matter of rounding.
    """

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed


def add_by_row(
    engine: Engine,
    plan: Plan,
    missed: set[nn.Parameter],
    inputs: Inputs,
    losses: RowLosses,
    found: list[Squares],
    *,
    first: bool,
) -> set[nn.Parameter]:
    """Measure in one pass what a plan cannot, where every row of a gradient is one sample's.

    Args:
        engine: Whose model it is.
        plan: What was followed.
        missed: The parameters that fell out, though planned.
        inputs: N samples.
        losses: What to measure.
        found: Squared norms [N] by parameter for each loss, to be added to.
        first: Whether it is the first batch of its form.

    Returns:
        The parameters that this speaks for; those without a number have no gradient. If some
        sample depends on its company, nothing that was found holds: all parameters are missed.

    Raises:
        ModelError: If many samples of the first batch do.
    """
    if batches.count(inputs) < _WORTH_A_TRY:
        return set()
    watched = {p for p in plan.slow | missed if not is_unusual(p)} - engine.distrusted
    while watched:
        try:
            # Coarser products would send a word to one expert in a batch, and to another alone.
            with computing_in("fp32", engine.device):
                more, lost = _measured(engine, plan, watched, inputs, losses)
        except UnwatchableError as error:
            watched -= error.roots
        except _CompanyError as error:
            if error.mixed and first and any(found):
                raise ModelError(MIXED) from None
            missed.update(engine.parameters())
            for squares in found:
                squares.clear()
            break
        except (SteepestError, RuntimeError, ValueError, TypeError, MemoryError):
            break  # It finds fault with being watched, or with so many samples at once.
        else:
            for squares, others in zip(found, more, strict=False):
                squares.update(others)
            return watched - lost
    return set()


def _measured(
    engine: Engine, plan: Plan, watched: set[nn.Parameter], inputs: Inputs, losses: RowLosses
) -> tuple[list[Squares], set[nn.Parameter]]:
    total = batches.count(inputs)
    watch = Watch(
        [Source(p, parameter=p) for p in engine.parameters() if p in watched],
        total,
        data=batches.tensors_of(inputs),
        model=engine.model,
        in_order=False,
    )
    try:
        outputs = engine.restored_call(inputs, watch)
        if len(watch.uses) > _CALLS_A_SAMPLE * total:
            return [], watched
        values = losses(outputs, slice(0, total))
        _check_company(engine, plan, inputs, losses, outputs, values)
        for use in watch.uses:
            use.place += len(plan.steps)  # Others have the first places.
        meter = RowMeter(watch, engine.routes, engine.observer)
        return meter.measure_all(values, outputs)
    finally:
        watch.close()


def _check_company(
    engine: Engine,
    plan: Plan,
    inputs: Inputs,
    losses: RowLosses,
    outputs: Any,  # noqa: ANN401
    values: list[Tensor],
) -> None:
    """Run the two ends of a batch alone, and the halves between, which then come backwards too.

    What goes where may depend on how much of it there is, as with experts that turn words away: who
    came last in a batch comes first then. And rounding may send a word that is torn between two
    experts to the one or to the other.

    Raises:
        _CompanyError: If the model says something else of a sample in other company.
    """
    total = len(values[0])
    before = _said(outputs, values)
    ends = sorted({0, 1, (total + 1) // 2, total - 1, total})
    odd = torch.zeros(total, dtype=torch.bool, device=values[0].device)
    for here in (slice(*part) for part in pairwise(ends)):
        rows = torch.arange(here.start, here.stop, device=odd.device).flip(0)
        with torch.no_grad():
            again = engine.restored_call(batches.take(inputs, here))
            pairs = list(zip(before, _said(again, losses(again, here)), strict=True))
            if len(rows) > 1:
                # Without losses, which may have labels in the order of the batch.
                turned = _said(engine.restored_call(batches.take(inputs, rows)), [])
                pairs += zip(before[len(values) :], (t.flip(0) for t in turned), strict=True)
        for whole, part in pairs:
            within = allowed(1e-3, plan.coarseness) * largest(whole)
            odd[here] |= differ(whole[here], part, within).any(1)
    if bool(odd.any()):
        raise _CompanyError(mixed=int(odd.sum()) * _MANY > total)


def _said(outputs: Any, values: list[Tensor]) -> list[Tensor]:  # noqa: ANN401
    """Return what a model says of its samples: losses and, if there are some, logits [N, ...]."""
    said = [value.detach()[:, None] for value in values]
    try:
        return [*said, batches.logits_of(outputs).detach().flatten(1)]
    except ModelError:
        return said  # A loss of the user's own reads outputs that we cannot.

"""Let a strategy choose from a pool under a model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from steepest.core.memory import Measurement, measured
from steepest.core.seeds import SampleId
from steepest.modules.fingerprint import fingerprint
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.regime import diagnose
from steepest.selecting.samples import Samples
from steepest.selecting.selection import Selection
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.verdict import judge
from steepest.strategies.base import Strategy
from steepest.strategies.choice import checked


@dataclass(frozen=True, eq=False)
class Outcome:
    """A selection, with notes.

    Attributes:
        selection: The chosen samples.
        lowest: The least wanted candidates with their scores, lowest first; none if samples have
            no score each.
        preparing: The cost of training for the strategy, before choosing; None if it takes none.
        choosing: The cost of choosing.
    """

    selection: Selection
    lowest: tuple[tuple[SampleId, float], ...]
    preparing: Measurement | None
    choosing: Measurement


def choose_from(
    model: nn.Module,
    samples: Samples,
    k: int,
    strategy: Strategy,
    how: SelectionOptions,
    lowest: int = 0,
) -> Outcome:
    """Let a strategy choose k samples.

    Args:
        model: Left unchanged.
        samples: All of the pool, labelled samples included.
        k: How many.
        strategy: The strategy.
        how: Options of the selection.
        lowest: How many of the least wanted samples to name.
    """
    strategy.check_k(k)
    chosen_by = fingerprint(model)
    with open_view(model, samples, strategy, how) as view:
        with measured(view.device) as preparing:
            view.prepared = strategy.prepare(view)
        with measured(view.device) as choosing:
            found = checked(strategy.choose(view, k), len(view), k, strategy.name)
        regime = diagnose(found.values, view.entropies, view.classes)
    verdict = judge(
        view.predicted,
        found.positions,
        view.classes,
        names=how.class_names,
        by_score=found.values is not None,
        said=found.said,
    )
    view.first.warn(stacklevel=3)
    selection = Selection(
        ids=tuple(view.ids[i] for i in found.positions),
        scores=tuple(float(value) for value in found.scores),
        strategy=strategy.name,
        options=strategy.options(),
        seed=how.seed,
        model=chosen_by,
        regime=regime,
        candidates=len(view),
        verdict=verdict,
    )
    last: tuple[tuple[SampleId, float], ...] = ()
    # Ranking a million scores takes time: only on request.
    if found.values is not None and lowest > 0:
        values = found.values
        last = tuple(
            (view.ids[i], float(values[i])) for i in top_k(-values, view.ids, lowest, how.seed)
        )
    return Outcome(selection, last, None if view.prepared is None else preparing, choosing)

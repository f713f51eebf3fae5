"""Growth of time with batch size and pool size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, OURS, UNIT
from steepest.bench.gradnorm_result import Growth
from steepest.bench.measuring import best_in_turns

_POOLS = (1, 2, 4, 8)


def measure_growth(case: Case, rounds: int) -> tuple[Growth, ...]:
    """Measure batches of 1, 2, 4, … up to the case's, and pools of 1 to 8 batches."""
    batches = [2**i for i in range(case.samples.bit_length()) if 2**i < case.samples]
    batches.append(case.samples)
    prepare = {name: CONTENDERS.get(name) for name in (UNIT, OURS)}
    per_batch = []
    for size in batches:
        part = case.first(size)
        work = {name: make(part).run for name, make in prepare.items()}
        per_batch.append(best_in_turns(work, rounds, case.clock))
    full = {name: make(case).run for name, make in prepare.items()}
    per_pool = [
        best_in_turns(
            {name: _repeated(run, times) for name, run in full.items()}, rounds, case.clock
        )
        for times in _POOLS
    ]
    pools = [case.samples * times for times in _POOLS]
    return tuple(
        Growth(
            name,
            tuple(batches),
            tuple(best[name] / size for best, size in zip(per_batch, batches, strict=True)),
            tuple(pools),
            tuple(best[name] for best in per_pool),
            fit_exponent(pools, [best[name] for best in per_pool]),
        )
        for name in prepare
    )


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds over log size, by least squares."""
    x, y = np.log(sizes), np.log(seconds)
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def _repeated(run: Callable[[], object], times: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(times):
            run()

    return work

"""This library's own exact norms."""

from __future__ import annotations

from steepest.bench.case import Case
from steepest.bench.contenders.base import CONTENDERS, OURS, Step
from steepest.gradnorm import GradientNorms


@CONTENDERS.register(OURS)
def prepare_ours(case: Case) -> Step:
    """Make the norms of this library ready."""
    norms = GradientNorms(case.model, "entropy", precision=case.precision)

    def tell() -> str:
        slow, names = norms.engine.slow_names(), norms.engine.names
        return f"{len(slow)} of {len(names)} parameters by the loop" if slow else ""

    return Step(lambda: norms(case.inputs), case.samples, tell=tell)

"""Missing runs and data of artefacts, with remedies."""

from __future__ import annotations

from collections.abc import Iterable

from steepest.paper.artefact import Need
from steepest.paper.workspace import Workspace


def tell_missing(work: Workspace, needs: Iterable[Need]) -> tuple[str, ...]:
    """Return a sentence for each thing that is not there, with what to do about it."""
    told: dict[str, None] = {}
    for need in needs:
        if not need.only_if_found:
            told.update(dict.fromkeys((*_absent(work, need), *_left_out(work, need))))
    return tuple(told)


def _left_out(work: Workspace, need: Need) -> Iterable[str]:
    """Tell what the paper's table has and nobody asked for: without it, it is a part."""
    group, level = work.comparison(need).name, work.level
    others = [name for name in need.strategies if name not in work.only]
    if work.only and others:
        yield f"{group}: {', '.join(others)} left out by --strategies"
    asked = len(level.seeds_of(need.setting, need.seeds))
    planned = level.planned_seeds(need.setting, need.seeds)
    if asked < planned:
        yield f"{group}: {asked} of {planned} seeds, by --seeds"


def _absent(work: Workspace, need: Need) -> Iterable[str]:
    seeds = work.level.seeds_of(need.setting, need.seeds)
    group = work.comparison(need).name
    unfinished: dict[tuple[int, ...], list[str]] = {}
    for strategy in work.strategies(need):
        absent = tuple(s for s in seeds if work.find(need, strategy, s) is None)
        known = work.problem_of(group, strategy)
        if absent and known:
            yield known
        elif absent:
            unfinished.setdefault(absent, []).append(strategy)
    for absent, names in unfinished.items():
        which = f"{'seed' if len(absent) == 1 else 'seeds'} {', '.join(map(str, absent))}"
        lack = " with all weights" if need.weights else ""
        yield f"{group}: no complete run{lack} of {', '.join(names)} for {which}"

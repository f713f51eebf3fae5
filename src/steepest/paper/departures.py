"""In what the runs behind an artefact are not the paper's, by choice or by need."""

from __future__ import annotations

import json
from collections.abc import Iterable

from steepest.paper.artefact import Need
from steepest.paper.protocol import MENDED
from steepest.paper.workspace import Workspace


def tell_departures(work: Workspace, needs: Iterable[Need]) -> tuple[str, ...]:
    """Return a sentence for each data set and strategy that has settings of its own.

    Args:
        work: Its runs that were used are those behind the artefact.
        needs: What the artefact is made from.
    """
    level = work.level
    strategies = list(dict.fromkeys(run.strategy for run in work.used.values()))
    told = {need.setting: level.changes_of(need.setting) for need in needs}
    for name in strategies:
        options = level.own_options.get(name, {}).items()
        told[name] = tuple(f"{option}={json.dumps(value)}" for option, value in options)
    found = [f"{name} was run with {', '.join(s)}, by --set." for name, s in told.items() if s]
    mended = [
        f"{name} was run with mended losses, under which its codes do not collapse; "
        f"--set {name}:published=true runs those of the published code."
        for name in strategies
        if name in MENDED and not level.own_options.get(name, {}).get("published")
    ]
    return (*found, *mended)

"""Settings in which two configurations may differ and still be of one experiment.

``GOING_ON`` are those that leave every record as it would have been: a folder takes them. Those of
``FASTER`` leave the experiment as it is and round its numbers otherwise: such a run may be shown
for another, saying in what it differs, but does not go on in the other's folder.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from steepest.core.devices import choose_device
from steepest.errors import ConfigError

GOING_ON = ("name", "loop.keep_weights", "data.options.workers", "training.cuda_graph")
"""Settings that no number on record depends on."""

FASTER = (
    "device",
    "threads",
    "training.amp",
    "training.compile",
    "training.channels_last",
)
"""Settings that only rounding depends on, and speed."""

Table = Mapping[str, Any]


def without(table: Table, keys: Iterable[str]) -> dict[str, Any]:
    """Return a configuration, as plain tables, without some settings.

    Args:
        table: The whole.
        keys: Such as ``loop.keep_weights``; one that is not there is passed over.
    """
    left: dict[str, Any] = copy.deepcopy(dict(table))
    for key in keys:
        *path, last = key.split(".")
        inside: Any = left
        for name in path:
            inside = inside.get(name) if isinstance(inside, dict) else None
        if isinstance(inside, dict):
            inside.pop(last, None)
    return left


def to_go_on(found: Table, wanted: Table, *, longer: bool = False) -> tuple[Table, Table]:
    """Return two configurations without that in which they may differ in one folder.

    Args:
        found: That of the folder.
        wanted: That of this call.
        longer: Whether the latter may have more cycles.

    Returns:
        Both, equal if the folder may go on.
    """
    free = [*GOING_ON]
    if _means_the_same(found.get("device"), wanted.get("device")):
        free.append("device")
    if longer and _cycles(found) < _cycles(wanted):
        free.append("loop.cycles")
    return without(found, free), without(wanted, free)


def _means_the_same(one: object, other: object) -> bool:
    try:
        return choose_device(str(one)) == choose_device(str(other))
    except ConfigError:
        return False  # Of another machine.


def _cycles(table: Table) -> int:
    loop = table.get("loop")
    cycles = loop.get("cycles") if isinstance(loop, Mapping) else None
    return cycles if isinstance(cycles, int) else 0

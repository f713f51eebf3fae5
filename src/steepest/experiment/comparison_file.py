"""``comparison.json``: the contents of a comparison, and the settings that may change on resuming.

``GOING_ON`` are settings that leave every record as it would have been: a folder takes them. Those
of ``FASTER`` leave the experiment as it is and round its numbers otherwise: such a run may be shown
for another, saying in what it differs, but does not go on in the other's folder.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steepest.core.devices import choose_device
from steepest.core.files import SCRATCH_PREFIX, write_atomically
from steepest.core.lock import FileLock, InUseError
from steepest.core.parsing import parse_json
from steepest.errors import ConfigError, RunFolderError
from steepest.experiment.config import Config, completed
from steepest.experiment.environment import describe_environment
from steepest.experiment.variants import Variant, variant_tables

_FILE = "comparison.json"
_PATIENCE_SECONDS = 10.0
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


def describe(
    config: Config,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: Path,
    command: str = "",
    *,
    running: bool = True,
) -> dict[str, Any]:
    """Return what is compared, with what the folder compares already.

    Strategies and seeds may be added later; anything else must stay. Of the calls that ran
    something each is kept once, under ``calls``; ``command`` and ``versions`` are the first's.

    Args:
        config: The experiment; its strategy and seed are replaced.
        variants: The strategies of this call.
        seeds: The seeds of this call.
        out: The comparison's folder.
        command: The command as typed.
        running: Whether this call is going to run something. If not, the folder says of commands
            and versions what it said before: its results are not of this machine.

    Raises:
        RunFolderError: If the folder belongs to another comparison, or to something else.
    """
    tables = variant_tables(variants, config)
    common = json.loads(json.dumps(config.to_table()))
    all_seeds = list(dict.fromkeys(seeds))
    calls: dict[str, Any] = {}
    if (out / _FILE).exists():
        found = _read(out / _FILE)
        known = json.loads(json.dumps(completed(found["config"])))
        before, now = to_go_on(known, common)
        if before != now:
            raise RunFolderError(
                f"{out} holds a comparison of another configuration "
                f"({first_difference(before, now)}): choose another --out"
            )
        common = {**known, "name": config.name}
        tables = _joined(_known_variants(found), tables, out)
        all_seeds = sorted({*found["seeds"], *seeds})
        calls = found["calls"]
    elif out.exists() and (not out.is_dir() or any(map(_is_foreign, out.iterdir()))):
        raise RunFolderError(f"{out} is not empty and holds no comparison: choose another --out")
    return {
        "name": config.name,
        "strategies": list(tables),
        "variants": tables,
        "seeds": all_seeds,
        "config": common,
        **(_with_call(calls, command, config) if running else calls),
    }


def write_description(description: Mapping[str, Any], out: Path) -> None:
    """Write the description of a comparison."""
    write_atomically(out / _FILE, _encode(description))


def is_written(description: Mapping[str, Any], out: Path) -> bool:
    """Say whether a folder holds this very description: results may be in a read-only place."""
    path = out / _FILE
    return path.is_file() and path.read_bytes() == _encode(description).encode()


@contextmanager
def adding_to(out: Path) -> Iterator[None]:
    """Keep other processes from adding to a folder's description meanwhile.

    Raises:
        RunFolderError: If the folder cannot be written to, or another process keeps on writing.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            lock = FileLock(out / _FILE, shown=out)
            break
        except InUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with lock:
        yield


def _encode(description: Mapping[str, Any]) -> str:
    return json.dumps(description, indent=1) + "\n"


def _is_foreign(path: Path) -> bool:
    """Say whether a file is not what a kill may have left before the first description."""
    return path.name != f"{_FILE}.lock" and not path.name.startswith(SCRATCH_PREFIX)


def _with_call(known: Mapping[str, Any], command: str, config: Config) -> dict[str, Any]:
    """Return what a folder says of its calls, with one more."""
    now = {"command": command, "versions": describe_environment(choose_device(config.device))}
    described = {key: known.get(key) for key in now}
    first = described if any(described.values()) else now
    calls = list(known.get("calls") or [first])  # Older versions kept one call alone.
    if now not in calls:  # A call that was cut short is repeated as it is.
        calls.append(now)
    return {**first, "calls": calls}


def _joined(
    known: Mapping[str, Any], new: Mapping[str, dict[str, Any]], out: Path
) -> dict[str, dict[str, Any]]:
    """Return known and new variants; a label keeps its meaning, or complete runs would lie."""
    for label, table in new.items():
        if known.get(label, table) != table:
            raise RunFolderError(
                f"{out} holds another {label!r} ({first_difference(known[label], table)}): "
                "choose another label"
            )
    return {**known, **new}


def _known_variants(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variants of a folder; in those of older versions labels are strategies."""
    part = found["config"].get("strategy") or {}
    older = {
        label: {
            "name": label,
            "options": (part.get("options") or {}) if part.get("name") == label else {},
        }
        for label in found["strategies"]
    }
    return {**older, **found["variants"]}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        kept = {
            "config": dict(found["config"]),
            "strategies": [str(label) for label in found["strategies"]],
            "seeds": [int(seed) for seed in found["seeds"]],
            "variants": {
                key: dict(described) for key, described in (found.get("variants") or {}).items()
            },
        }
        calls = {key: found[key] for key in ("command", "versions") if key in found}
        if "calls" in found:
            calls["calls"] = [dict(call) for call in found["calls"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(
            f"{path} is damaged ({error}): restore the file from a copy, or choose another --out"
        ) from error
    return {**kept, "calls": calls}


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


def first_difference(found: Any, wanted: Any, where: str = "") -> str:  # noqa: ANN401
    """Say in words where two configurations, as plain tables, first differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                inside = f"{where}.{key}" if where else key
                return first_difference(found.get(key), wanted.get(key), inside)
    return f"{where} is {found!r} there and {wanted!r} here"

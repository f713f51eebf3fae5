"""The lines of a pool's journal: one header, then one entry per verb call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from steepest.core.journal import Entry
from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.pool.states import GIVES_LABELS, Verb
from steepest.pool.values import Label, check_text, plain_ids, plain_labels

VERSION = 1


def make_header(ids: Sequence[SampleId]) -> Entry:
    """Return the first entry; the ids 0 … n - 1 are written as their number alone."""
    count = len(ids)
    compact = all(number == i for number, i in enumerate(ids))
    return {
        "entry": "pool",
        "version": VERSION,
        "ids": {"range": count} if compact else {"list": list(ids)},
    }


def read_header(entries: Sequence[Entry]) -> list[SampleId]:
    """Return the ids that the first entry names.

    Raises:
        InputError: If it is no header, or one that this version cannot read.
    """
    if not entries or entries[0].get("entry") != "pool":
        raise InputError("does not start with a pool's header; choose the journal of a pool")
    version = entries[0].get("version")
    if version != VERSION:
        raise InputError(
            f"has the pool format {version!r}, and this steepest reads {VERSION}; "
            "use the steepest that wrote it"
        )
    named = entries[0].get("ids")
    match named:
        case {"range": int(count)}:
            return check_pool_ids(range(count))
        case {"list": list(listed)}:
            return check_pool_ids(listed)
    raise InputError("has a header without ids; restore the file from a copy")


def check_pool_ids(values: object) -> list[SampleId]:
    """Return the ids of a whole pool: at least one, distinct, all of one kind."""
    ids = plain_ids(values)
    if not ids:
        raise InputError("a pool needs at least one sample id")
    if len({isinstance(i, str) for i in ids}) > 1:
        raise InputError("ids are whole numbers and texts mixed; use one kind")
    return ids


def make_entry(
    verb: Verb, ids: list[SampleId], labels: list[Label] | None, cycle: int, who: str
) -> Entry:
    """Return the entry of one verb call, made now."""
    entry: Entry = {
        "entry": verb.value,
        "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        "who": who,
        "cycle": cycle,
        "ids": ids,
    }
    if labels is not None:
        entry["labels"] = labels
    return entry


def check_entry(entry: Entry) -> Verb:
    """Return the verb of an entry whose fields are all as they should be.

    Raises:
        InputError: Naming the field that is not.
    """
    verb = _read_verb(entry.get("entry"))
    _check_time(entry.get("time"))
    who, cycle, reason = entry.get("who"), entry.get("cycle"), entry.get("reason", "")
    if not isinstance(who, str) or not who:
        raise InputError(f"who is {who!r}; name the person or program that decided")
    check_text(who, "who")
    if not isinstance(cycle, int) or isinstance(cycle, bool) or cycle < 0:
        raise InputError(f"cycle is {cycle!r}; count cycles from 0")
    if not isinstance(reason, str):
        raise InputError(f"reason is {reason!r}; give a text")
    check_text(reason, "reason")
    ids = plain_ids(entry.get("ids"))
    if verb in GIVES_LABELS:
        labels = plain_labels(entry.get("labels"))
        if len(labels) != len(ids):
            raise InputError(f"{len(ids)} ids but {len(labels)} labels; give one label per id")
    return verb


def _read_verb(name: object) -> Verb:
    try:
        return Verb(name)  # type: ignore[arg-type]
    except ValueError:
        raise InputError(f"{name!r} is not a verb of a pool") from None


def _check_time(time: object) -> None:
    try:
        datetime.fromisoformat(time)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"time is {time!r}, which is no ISO 8601 time") from None

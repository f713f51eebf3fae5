"""JSON lines: one object per sample."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    read_text,
    skip_reason,
)
from steepest.selecting.selection import Selection

_OUR_KEYS = frozenset({"label", "labels", "skip"})


@FORMATS.register("jsonl")
class JsonLines(LabelFormat):
    """One JSON object per line."""

    suffixes = (".jsonl", ".ndjson")
    empty = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        entries = (
            {"id": i, "labels": list(names)} if labels.multi_label else {"id": i, "label": names[0]}
            for i, names in labels.labels.items()
        )
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        write_atomically(path, text)

    def read(self, path: Path) -> Iterator[Row]:
        """Read one file."""
        yield from read_jsonl(path)


def read_jsonl(path: Path, id_key: str = "id") -> Iterator[Row]:
    """Read lines such as ``{"id": "a.png", "label": "cat"}``; other keys are ignored.

    The classes may also be under ``labels``, as a list or one alone.

    Args:
        path: The file.
        id_key: The key of the sample's id.

    Raises:
        InputError: With the line's number, if one is malformed.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: is no JSON ({error})") from error
        if not isinstance(entry, dict) or id_key not in entry or not entry.keys() & _OUR_KEYS:
            form = f'{{"{id_key}": …, "label": …}}'
            raise InputError(f"{path}, line {number}: is not of the form {form}")
        label, reason = _label(entry, path, number), _reason(entry, path, number)
        who, at = (_text(entry, key) for key in ("annotator", "at"))
        yield Row(f"line {number}", entry[id_key], label, reason, who, at)


def lines(picks: Selection) -> str:
    """Return picks as lines whose ``label`` is to be filled in."""
    rows = zip(picks.ids, picks.ranks, picks.scores, strict=True)
    entries = (
        {"id": i, "label": None, "rank": rank, "score": None if math.isnan(score) else score}
        for i, rank, score in rows
    )
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _label(entry: dict[str, object], path: Path, number: int) -> object:
    given = [entry[key] for key in ("label", "labels") if entry.get(key) is not None]
    if len(given) > 1:
        raise InputError(f"{path}, line {number}: has label and labels; leave one of them out")
    return given[0] if given else None


def _text(entry: dict[str, object], key: str) -> str:
    found = entry.get(key)
    return found.strip() if isinstance(found, str) else ""


def _reason(entry: dict[str, object], path: Path, number: int) -> str:
    skip = entry.get("skip")
    if skip is None or isinstance(skip, bool):
        return "skipped" if skip else ""
    if not isinstance(skip, str):
        raise InputError(f"{path}, line {number}: skip is {skip!r}; give true or the reason")
    return skip_reason(skip)

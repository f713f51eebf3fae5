"""Label files with one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.exchange.rows import Row
from steepest.labelling.exchange.text import read_text


def read_jsonl(path: Path) -> Iterator[Row]:
    """Read lines such as ``{"id": "a.png", "label": "cat"}``; other keys are passed over.

    Raises:
        InputError: With the line's number, if one is malformed.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: is no JSON ({error})") from error
        if not isinstance(entry, dict) or "id" not in entry or not entry.keys() & {"label", "skip"}:
            raise InputError(f'{path}, line {number}: is not of the form {{"id": …, "label": …}}')
        yield Row(f"line {number}", entry["id"], entry.get("label"), _reason(entry, path, number))


def lines(made: Round) -> str:
    """Return picks as lines whose ``label`` is to be filled in."""
    picks = made.picks
    rows = zip(picks.ids, picks.ranks, picks.scores, strict=True)
    entries = (
        {"id": sample, "label": None, "rank": rank, "score": score} for sample, rank, score in rows
    )
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _reason(entry: dict[str, object], path: Path, number: int) -> str:
    skip = entry.get("skip")
    if skip is None or isinstance(skip, bool):
        return "skipped" if skip else ""
    if not isinstance(skip, str):
        raise InputError(f"{path}, line {number}: skip is {skip!r}; give true or the reason")
    return skip.strip()

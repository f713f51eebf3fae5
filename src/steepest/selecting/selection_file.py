"""Selections on disk: one JSON object, or a plain table with its settings in a file beside it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.errors import InputError
from steepest.version import __version__

SUFFIXES = (".csv", ".json")

_COLUMNS = ["rank", "id", "score"]
_ID_TYPES = {"int": int, "str": str}


def sidecar_of(path: Path) -> Path:
    """Return where the settings of a table are: ``picks.csv.json`` for ``picks.csv``."""
    return path.with_name(f"{path.name}.json")


def write_table(path: Path, table: Mapping[str, Any]) -> None:
    """Write a selection as CSV or JSON, whichever the file's name says.

    Args:
        path: Ends in .csv or .json.
        table: The selection as plain values.

    Raises:
        InputError: If it has another name, or cannot be written there.
    """
    facts = {**table, "steepest": __version__}
    if suffix_of(path) == ".json":
        write_atomically(path, _json(facts))
        return
    ids, scores = facts.pop("ids"), [float(score) for score in facts.pop("scores")]
    facts["samples"] = {"count": len(ids), "id_type": _id_type(ids), "sha256": _digest(ids, scores)}
    write_atomically(path, _csv(ids, scores))
    write_atomically(sidecar_of(path), _json(facts))


def read_table(path: Path) -> dict[str, Any]:
    """Read a file written by ``write_table``.

    Raises:
        InputError: If the file is not such a file, or its settings are missing or of another.
    """
    suffix = suffix_of(path)
    try:
        if suffix == ".json":
            facts = _read_facts(path)
        else:
            rows = _read_csv(path)
            facts = _read_facts(sidecar_of(path))
            facts |= _columns(rows, facts.pop("samples"), path)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, IndexError, TypeError, csv.Error) as error:
        raise InputError(f"{path} is no selection saved by steepest ({error})") from error
    facts.pop("steepest", None)
    return facts


def suffix_of(path: Path) -> str:
    """Return how a file's name ends.

    Raises:
        InputError: If no selection is saved under such a name.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: a selection is saved as .csv or .json")
    return path.suffix


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=1) + "\n"


def _csv(ids: Sequence[Any], scores: Sequence[float]) -> str:
    text = io.StringIO()
    # Python's csv leaves a lone carriage return bare, and reads it as the end of a row.
    broken = any(isinstance(name, str) and "\r" in name for name in ids)
    rows = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if broken else csv.QUOTE_MINIMAL
    )
    rows.writerow(_COLUMNS)
    for rank, (name, value) in enumerate(zip(ids, scores, strict=True), start=1):
        rows.writerow([rank, name, repr(value)])
    return text.getvalue()


def _read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not set(_COLUMNS) <= rows[0].keys():
        raise ValueError(f"it has no rows of {','.join(_COLUMNS)}")
    return rows


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path.suffixes[-2:] != [".csv", ".json"]:
            raise
        raise InputError(
            f"{path} is missing, which holds the settings of {path.stem}: keep both files together"
        ) from None
    facts = parse_json(text)
    if not isinstance(facts, dict):
        raise TypeError(f"{path.name} holds no object")
    return facts


def _columns(rows: list[dict[str, str]], told: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return ids and scores of a table, if they are those that its settings were written for."""
    kinds, names = told["id_type"], [row["id"] for row in rows]
    kinds = [kinds] * len(names) if isinstance(kinds, str) else kinds
    scores = [float(row["score"]) for row in rows]
    same = len(kinds) == len(names) == told["count"]
    ids = [_ID_TYPES[kind](name) for kind, name in zip(kinds, names, strict=True)] if same else []
    if not same or _digest(ids, scores) != told["sha256"]:
        raise InputError(
            f"{path} is not what {sidecar_of(path).name} was written with: rows were changed, or "
            "one of the two files is of another selection; take both from one place, or save again"
        )
    return {"ids": ids, "scores": scores}


def _id_type(ids: Sequence[Any]) -> str | list[str]:
    """Return the type of all ids, or of each: a table does not tell 7 from ``"7"``."""
    kinds = ["str" if isinstance(name, str) else "int" for name in ids]
    return kinds if len(set(kinds)) > 1 else (kinds or ["int"])[0]


def _digest(ids: Sequence[Any], scores: Sequence[float]) -> str:
    return hashlib.sha256(json.dumps([list(ids), list(scores)]).encode()).hexdigest()

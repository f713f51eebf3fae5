"""The table of what came out beside the paper, from the artefacts in ``results/reproduce``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown_table import table

RESULTS = Path(__file__).parent / "reproduce"
LITERAL: Mapping[str, Any] = {
    "model": "T(c+1)",
    "curvature": "gauss-newton",
    "damping": 1.0,
    "target_loss": "true-label",
    "sign": "signed",
    "criterion_loss": "entropy",
    "norm": "l2",
}
"""Table 2 as the paper words it: the influence with its sign, by the model that was trained on the
choice, with labels looked up; the criterion as the method has it, without labels. It tells no
damping."""

_ABOUT = {"about": "≈ ", "at most": "≤ "}
_NONE = "–"

Row = Mapping[str, Any]


def paper(folder: Path = RESULTS) -> str:
    """Return the headline numbers of CIFAR-10, ours and the published ones."""
    lines = [
        *_accuracies(_rows(folder, "figure-1")),
        *_overlaps(_rows(folder, "table-1")),
        *_agreements(folder),
        *_gaps(_rows(folder, "table-3")),
        *_falls(_rows(folder, "table-4")),
    ]
    return table(("on CIFAR-10", "ours", "n", "paper"), lines)


def accuracy(folder: Path = RESULTS) -> str:
    """Return the accuracies alone."""
    return table(
        ("test accuracy", "ours", "n", "paper"), _accuracies(_rows(folder, "figure-1"), "")
    )


def _rows(folder: Path, name: str) -> list[Row]:
    data = json.loads((folder / name / "data.json").read_text(encoding="utf-8"))
    return [r for r in data["rows"] if r["data"] == "cifar10" and r["ours"] is not None]


def _accuracies(rows: Sequence[Row], of: str = "accuracy, ") -> list[list[str]]:
    lines = []
    for method, share in (
        ("entropy-gradnorm", 25), ("entropy-gradnorm", 40), ("entropy", 40), ("margin", 40),
        ("random", 40), ("all labels", 100),
    ):  # fmt: skip
        for r in rows:
            if (r["method"], r["share"]) == (method, share):
                what = method if share == 100 else f"{method}, {r['labels']:,} labels"
                lines.append([f"{of}{what}", _value(r, 2), str(r["n"]), _published(r, 2)])
    return lines


def _overlaps(rows: Sequence[Row]) -> list[list[str]]:
    own = [r for r in rows if (r["setting"], r["norm"]) == ("own run", "tensor-sum")]
    some = [r for r in own if r["method"] == "entropy-gradnorm"]
    what = f"chosen samples that are among those of highest true norm, of {some[0]['k']:,}"
    return [[f"{what}, cycle by cycle (Table 1)", *_series(some, 0)]]


def _agreements(folder: Path) -> list[list[str]]:
    """Return Table 2 as it is worded, and by the reading that comes nearest."""
    path = folder / "table-2" / "data.json"
    near = json.loads(path.read_text(encoding="utf-8"))["more"]["distances"]
    what = "samples of highest norm that are among those of highest influence"
    solved = "" if near[0]["sound"] else ", systems not solved"
    readings = {
        "as it is worded": LITERAL,
        f"nearest of {len(near)} readings{solved}": near[0]["reading"],
    }
    lines = []
    for told, reading in readings.items():
        some = [r for r in _rows(folder, "table-2") if all(r[k] == v for k, v in reading.items())]
        lines.append([f"{what}, {told}, cycle by cycle (Table 2)", *_series(some, 0)])
    return lines


def _gaps(rows: Sequence[Row]) -> list[list[str]]:
    some = [r for r in rows if r["method"] == "entropy-gradnorm"]
    return [["training less test accuracy, cycle by cycle (Table 3)", *_series(some, 2)]]


def _falls(rows: Sequence[Row]) -> list[list[str]]:
    some = [r for r in rows if (r["loss"], r["norm"]) == ("entropy", "tensor-sum")]
    lines = []
    for group in ("selected", "not selected"):
        found = [r for r in some if r["method"] == group]
        lines.append([f"samples whose norm falls, {group}, % (A.2)", *_series(found, 1)])
    return lines


def _series(rows: Sequence[Row], decimals: int) -> list[str]:
    published = [_published(r, decimals) for r in rows]
    told = _NONE if set(published) == {_NONE} else ", ".join(published)
    ours = ", ".join(f"{r['ours']:.{decimals}f}" for r in rows)
    return [ours, str(rows[0]["n"]), told]


def _value(row: Row, decimals: int) -> str:
    spread = "" if row["sd"] is None else f" ± {row['sd']:.{decimals}f}"
    return f"{row['ours']:.{decimals}f}{spread}"


def _published(row: Row, decimals: int) -> str:
    if row["paper"] is None:
        return _NONE
    return f"{_ABOUT.get(row.get('relation') or '', '')}{row['paper']:.{decimals}f}"

"""A labelling loop by commands, as a team has it."""

from __future__ import annotations

import csv
import io

from shell import run_here, select_args

from steepest.labelling.project import open_pool

NAMES = "cat,dog,owl,newt"


def select(capsys, *more, **changes):
    options = {"out": "sheet.csv", **changes}
    return run_here(capsys, *select_args(**options, more=["--run", "loop", *more]))


def begin(capsys, *more):
    told = select(capsys, "--classes", NAMES, "--format", "csv", *more)
    assert told.code == 0, told.err
    return told


def fill_in(sheet, label="owl"):
    """Write a label into each row, as a person does in a spreadsheet."""
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8").splitlines()))
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0].keys())
    table.writeheader()
    table.writerows({**row, "label": label} for row in rows)
    (sheet.parent / "filled.csv").write_text(text.getvalue(), encoding="utf-8")
    return [int(row["id"]) for row in rows]


def pool_of(workshop):
    return open_pool(workshop / "loop", "sheet")

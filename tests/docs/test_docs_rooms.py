"""The table of rooms says who imports whom, and imports go one way."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from doc_pages import ROOT

SOURCE = ROOT / "src" / "steepest"
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
ROOMS = {
    path.name
    for path in SOURCE.iterdir()
    if path.is_dir() and any(child.suffix in {".py", ".toml"} for child in path.iterdir())
}
FRONT = {"__init__", "__main__"}
EVERYBODYS = {"errors", "version"}
FILES = {path.stem for path in SOURCE.glob("*.py")} - FRONT - EVERYBODYS


def drawn_rooms():
    """Read the table as name -> names of the rooms that it imports; None for all."""
    section = PAGE.split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|.*\| ([^|]+) \|$", section, re.MULTILINE)
    return {
        name: None if known == "all" else set(known.split(", ")) - {"–"} for name, known in rows
    }


def imported_by(text):
    """Return what a file's text imports from the package, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return {name for name in found if name.startswith("steepest.")}


@cache
def rooms_known_to(name):
    paths = (SOURCE / name).rglob("*.py") if name in ROOMS else [SOURCE / f"{name}.py"]
    known = set().union(*(imported_by(path.read_text(encoding="utf-8")) for path in paths))
    return ({found.split(".")[1] for found in known} & (ROOMS | FILES)) - {name}


DRAWN = drawn_rooms()
ORDER = list(DRAWN)


def test_every_form_of_import_is_seen():
    text = "import steepest.pool\nfrom steepest import loop\ndef f():\n from steepest.a.b import c"
    assert imported_by(text) == {"steepest.pool", "steepest.loop", "steepest.a.b.c"}
    assert imported_by("import torch\nfrom steepestness.pool import Pool") == set()


def test_every_room_and_file_is_in_the_table():
    assert DRAWN.keys() == ROOMS | FILES


@pytest.mark.parametrize("name", [name for name, known in DRAWN.items() if known is not None])
def test_a_room_imports_what_the_table_says(name):
    assert rooms_known_to(name) == DRAWN[name]


@pytest.mark.parametrize("name", ORDER)
def test_imports_go_to_rooms_above(name):
    assert rooms_known_to(name) <= set(ORDER[: ORDER.index(name)])


def test_what_everybody_may_import_knows_the_core_alone():
    assert set().union(*map(rooms_known_to, EVERYBODYS)) <= {"core"}

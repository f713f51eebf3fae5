"""The table of rooms says who imports whom, and the single files import no room."""

from __future__ import annotations

import ast
import re

import pytest
from doc_pages import ROOT

SOURCE = ROOT / "src" / "steepest"
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
ROOMS = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
FRONT = {"__init__", "__main__"}
FILES = {path.stem for path in SOURCE.glob("*.py")} - FRONT


def drawn_rooms():
    """Read the table as name -> names of the rooms that it knows of; None for all."""
    section = PAGE.split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|.*\| ([^|]+) \|$", section, re.MULTILINE)
    return {
        name: None if known == "all" else set(known.split(", ")) - {"–"} for name, known in rows
    }


def imported_by(text):
    """Return which of the package's own parts a file's text imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return {name.split(".")[1] for name in found if name.startswith("steepest.")}


def rooms_known_to(name):
    paths = (SOURCE / name).rglob("*.py") if name in ROOMS else [SOURCE / f"{name}.py"]
    known = set().union(*(imported_by(path.read_text(encoding="utf-8")) for path in paths))
    return (known & ROOMS) - {name}


DRAWN = drawn_rooms()


def test_every_form_of_import_is_seen():
    text = "import steepest.pool\nfrom steepest import loop\ndef f():\n from steepest.a.b import c"
    assert imported_by(text) == {"pool", "loop", "a"}
    assert imported_by("import torch\nfrom steepestness.pool import Pool") == set()


def test_every_room_is_in_the_table():
    assert ROOMS <= DRAWN.keys() <= ROOMS | FILES
    assert len(ROOMS) > 20


@pytest.mark.parametrize("name", [name for name, known in DRAWN.items() if known is not None])
def test_a_room_imports_what_the_table_says(name):
    assert rooms_known_to(name) == DRAWN[name]


def test_single_files_are_named_and_import_no_room():
    alone = FILES - DRAWN.keys()
    named = PAGE.split("Beside them are single files")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)\.py`", named)) == alone
    assert {name: rooms_known_to(name) for name in alone} == {name: set() for name in alone}

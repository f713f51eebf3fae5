"""The documentation site leads to every page; building it (`make docs`) checks the rest."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import pytest
from doc_pages import ROOT

TEXT = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAV = set(re.findall(r"([\w/-]+\.md)$", TEXT.split("\nnav:")[1], re.MULTILINE))
ROOMS = sorted(name.removeprefix("api/").removesuffix(".md") for name in NAV if name[:4] == "api/")


def test_every_page_and_notebook_is_in_the_navigation():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert pages | notebooks <= NAV


@pytest.mark.parametrize("room", ROOMS)
def test_the_api_reference_is_of_rooms_that_say_what_is_public(room):
    if room == "sklearn":
        pytest.importorskip("sklearn")
    module = import_module("steepest" if room == "index" else f"steepest.{room}")
    if room != "errors":
        assert all(hasattr(module, name) for name in module.__all__)


def test_each_public_name_links_to_where_it_is_described(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "docs" / "site")])
    hooks = import_module("hooks")
    pages = {f"{room}.md": hooks._show_room(room) for room in set(ROOMS) - {"index", "errors"}}
    surface = hooks._show_surface(ROOMS)
    for page, anchor in re.findall(
        r"^\| \[`steepest\.\w+`\]\(([\w.]*)#([\w.]+)\)", surface, re.MULTILINE
    ):
        assert f"::: {anchor}\n" in (pages[page] if page else surface)

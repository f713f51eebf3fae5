"""Tables made from the code are up to date, and the pages speak of everything that is there."""

from __future__ import annotations

import json
import re

import pytest
from doc_pages import ROOT, name_of, read_anchors
from doc_tables import TABLES, WITH_TABLES, marked_tables, with_tables

from steepest.gradnorm import rules
from steepest.strategies import names
from steepest.strategies.base import STRATEGIES


@pytest.mark.parametrize("page", WITH_TABLES, ids=name_of)
def test_the_tables_of_a_page_are_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    again = "run: .venv/bin/python tests/docs/doc_tables.py"
    assert with_tables(text) == text, f"{name_of(page)} is out of date; {again}"


def test_every_table_is_in_one_page():
    pages = [page.read_text(encoding="utf-8") for page in WITH_TABLES]
    found = [name for text in pages for name in marked_tables(text)]
    assert sorted(found) == sorted(TABLES)


def test_a_new_rule_would_be_missed_in_the_page(monkeypatch):
    def added(x, weight):
        pass

    def new_rule(call, g):
        """Do something new."""

    monkeypatch.setitem(rules.RULES, added, rules.Rule(new_rule, ("x", "weight"), "anywhere"))
    page = ROOT / "docs/gradient-norms.md"
    text = page.read_text(encoding="utf-8")
    assert "Do something new." in with_tables(text)
    assert with_tables(text) != text


def test_an_old_table_is_replaced_and_the_rest_kept():
    text = "a\n<!-- table: pool verbs -->\n| old |\n<!-- end of table -->\nb\n"
    made = with_tables(text)
    assert "| old |" not in made
    assert "| `relabel` | labelled | labelled |" in made
    assert made.startswith("a\n<!-- table")
    assert made.endswith("<!-- end of table -->\nb\n")
    assert with_tables(made) == made


@pytest.mark.parametrize("name", names())
def test_every_strategy_has_a_page_that_says_what_users_ask(name):
    page = ROOT / f"docs/strategies/{name}.md"
    wanted = {name, "idea", "formula", "options", "cost", "when-it-fails", "reference"}
    assert wanted <= set(read_anchors(page))
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    options = STRATEGIES.get(name)().options()
    assert all(f"`{option}`" in text for option in options)


def read_default(cell):
    """Return the value that a cell of a page's table stands for."""
    text = cell.strip().strip("`").replace(",", "")
    if text in ("none", "–"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize("name", names())
def test_the_defaults_on_a_strategy_s_page_are_those_it_has(name):
    text = (ROOT / f"docs/strategies/{name}.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    options = STRATEGIES.get(name)().options()
    assert bool(said) == bool(options)
    has = {option: None if options[option] == {} else options[option] for option in said}
    assert {option: read_default(cell) for option, cell in said.items()} == has

"""What the command line says of strategies: all in a list, one with its options."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest
from shell import assert_one_line, run_here

import steepest
from steepest.strategies.base import STRATEGIES

PAGES = Path(__file__).parent.parent.parent
WIDTH = 100

OWN = '''
from dataclasses import dataclass

from steepest.strategies import Scorer


@dataclass(frozen=True)
class Gini(Scorer):
    """Impurity.

    Args:
        temperature: Divides the logits, over
            two lines.
    """

    temperature: float = 1.0
    quiet: bool | None = None

    def score(self, batch):
        return 1 - (batch.logits / self.temperature).softmax(1).square().sum(1)
'''


def test_the_list_fits_a_terminal_and_names_every_strategy_once(capsys):
    told = run_here(capsys, "strategies")
    lines = told.out.splitlines()
    assert told.code == 0
    assert max(map(len, lines)) <= WIDTH
    named = [line.split()[0] for line in lines[2:-2] if not line.startswith(" ")]
    assert named == steepest.strategies.names()
    assert "steepest strategies NAME" in lines[-1]


def test_the_list_says_ideas_whole_and_leaves_formulas_to_the_page(capsys):
    shown = " ".join(run_here(capsys, "strategies").out.split())
    for name in steepest.strategies.names():
        idea = STRATEGIES.get(name).__doc__.splitlines()[0].partition(": score(x)")[0]
        assert f"{name} {idea.rstrip('.')}" in shown
    assert "score(x)" not in shown


@pytest.mark.parametrize("name", steepest.strategies.names())
def test_one_strategy_is_shown_with_each_option_and_its_meaning(name, capsys):
    told = run_here(capsys, "strategies", name)
    lines = told.out.splitlines()
    assert told.code == 0
    assert lines[0] == name
    assert lines[1].strip(" .") in STRATEGIES.get(name).__doc__.splitlines()[0]
    assert max(map(len, lines)) <= WIDTH
    (page,) = (line.split()[1] for line in lines if line.startswith("  page "))
    assert (PAGES / page).is_file()
    fields = [field.name for field in dataclasses.fields(STRATEGIES.get(name))]
    described = re.findall(r"^  (\w+) = .+\n {6}\S.*$", told.out, flags=re.MULTILINE)
    assert described == fields
    assert ("It has no options." in lines) == (not fields)


def test_needs_defaults_and_formula_are_those_of_the_strategy(capsys):
    shown = run_here(capsys, "strategies", "ll4al").out
    assert "  score    l̂(maps of x)\n" in shown
    assert "  needs    maps\n           maps, labelled, targets where nothing" in shown
    assert "  trains   a head, along with the model\n" in shown
    assert '\n  training = "joint"\n      "joint": the head is trained along' in shown
    assert "  needs    nothing\n" in run_here(capsys, "strategies", "random").out
    assert "  chooses  batches\n" in run_here(capsys, "strategies", "badge").out
    inherited = run_here(capsys, "strategies", "bald").out
    assert "  rate = none\n      How likely they do" in inherited


def test_a_strategy_of_ones_own_is_shown_without_a_page(workshop, capsys, monkeypatch):
    (workshop / "shown_ways.py").write_text(OWN)
    monkeypatch.syspath_prepend(workshop)
    monkeypatch.delitem(sys.modules, "shown_ways", raising=False)
    shown = run_here(capsys, "strategies", "shown_ways:Gini").out
    assert shown.startswith("Gini\n  Impurity.\n")
    assert "  temperature = 1.0\n      Divides the logits, over two lines.\n" in shown
    assert shown.endswith("  quiet = none\n")
    assert "page" not in shown


def test_an_unknown_strategy_is_one_line_with_the_nearest(capsys):
    told = run_here(capsys, "strategies", "bagde")
    assert_one_line(told, "unknown strategy 'bagde': did you mean 'badge'?")


def test_json_has_the_list_or_one_for_programs(capsys):
    listed = json.loads(run_here(capsys, "strategies", "--json").out)
    assert [entry["name"] for entry in listed] == list(steepest.strategies.names())
    (one,) = json.loads(run_here(capsys, "strategies", "badge", "--json").out)
    assert one in listed
    assert one["chooses"] == "batches"
    entry = next(entry for entry in listed if entry["name"] == "typiclust")
    assert all(option["help"] for option in entry["options"].values())

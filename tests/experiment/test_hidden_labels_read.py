"""A strategy of the user's own that reads hidden labels leaves a trace in record and report."""

from __future__ import annotations

import dataclasses
import html
import sys

import pytest
from small import config

from steepest.cli.outcome import show_outcome
from steepest.experiment import Experiment, compare

MODULE = '''
from dataclasses import dataclass

from steepest.data import load
from steepest.strategies import Scorer


@dataclass(frozen=True)
class Peek(Scorer):
    """Prefers images of nines: score(x) = 1 for a nine."""

    def score(self, batch):
        labels = load("digits").train_labels.unseal("looking for <nines>")
        return (labels[[int(i) for i in batch.ids]] == 9).double()
'''


@pytest.fixture
def strategy(tmp_path, monkeypatch):
    (tmp_path / "own_peek.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "own_peek:Peek"
    del sys.modules["own_peek"]


def purposes(records):
    return [record.purposes for record in records]


def test_purposes_are_in_the_record_of_each_cycle_that_read_labels(strategy, tmp_path):
    short = config(strategy__name=strategy, training__epochs=1, loop__cycles=2)
    read = ("looking for <nines>",)
    assert purposes(Experiment(short, tmp_path / "run").run()) == [read, ()]
    # The choice that the shorter run left out is made first.
    longer = dataclasses.replace(short, loop=dataclasses.replace(short.loop, cycles=3))
    assert purposes(Experiment(longer, tmp_path / "run").run()) == [read, read, ()]


@pytest.mark.usefixtures("same_process")
def test_the_report_and_the_terminal_warn_of_such_a_strategy(strategy, tmp_path, capsys):
    tiny = config(training__epochs=1, loop__cycles=2)
    compare(tiny, [strategy, "margin"], [0], tmp_path / "both", jobs=1)
    show_outcome(tmp_path / "both")
    warning = "had not paid for: Peek for “looking for <nines>”."
    page = (tmp_path / "both" / "report.html").read_text(encoding="utf-8")
    assert warning in html.unescape(page)
    assert warning in capsys.readouterr().out


@pytest.mark.usefixtures("same_process")
def test_strategies_that_read_none_are_not_suspected(tmp_path, capsys):
    compare(config(training__epochs=1, loop__cycles=2), ["margin"], [0], tmp_path / "one", jobs=1)
    show_outcome(tmp_path / "one")
    assert "Hidden labels" not in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "Hidden labels" not in capsys.readouterr().out

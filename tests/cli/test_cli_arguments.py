"""Arguments that commands share: read in one way, and said in the same words."""

from __future__ import annotations

import json
import sys

import pytest
from shell import run_here

from steepest.cli.arguments import names_of, pairs
from steepest.cli.main import make_parser
from steepest.errors import ConfigError, InputError

DEVICES = [["select"], *(["bench", what] for what in ("gradnorm", "precision", "training"))]
SEEDED = [*DEVICES, ["bench", "strategies"], ["run"]]


def test_names_with_dots_lead_into_tables():
    given = ["strategy_options.norm=tensor-sum", "strategy_options.layers=last", "overlap=2"]
    tables = {"strategy_options": {"norm": "tensor-sum", "layers": "last"}, "overlap": 2}
    assert pairs(given) == tables
    assert pairs([]) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [(["norm"], "write it as name=value"), (["a=1", "a.b=2"], "'a' is a value, not a table")],
)
def test_options_that_are_no_settings_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        pairs(given)


def test_names_may_have_spaces_around_them_and_count_once():
    assert names_of("margin, random,,margin ", "--strategies") == ("margin", "random")


@pytest.mark.parametrize("text", ["", " , "])
def test_a_list_without_names_is_refused_by_the_name_of_its_option(text):
    with pytest.raises(InputError, match=f"--models '{text}': give names separated by commas"):
        names_of(text, "--models")


@pytest.mark.parametrize("command", [*DEVICES, ["bench", "strategies"]], ids=" ".join)
def test_the_device_is_chosen_and_told_alike_everywhere(command, capsys):
    told = " ".join(run_here(capsys, *command, "--help").out.split())
    assert "cpu, cuda, cuda:1 … (default: auto, a GPU if there is one)" in told


@pytest.mark.parametrize("what", ["gradnorm", "precision", "training", "strategies"])
def test_every_measurement_takes_a_gpu_if_there_is_one(what):
    assert make_parser("bench")[0].parse_args(["bench", what]).device == "auto"


@pytest.mark.parametrize("command", SEEDED, ids=" ".join)
def test_the_seed_is_told_alike_everywhere(command, capsys):
    told = " ".join(run_here(capsys, *command, "--help").out.split())
    default = "the configuration's" if command == ["run"] else "0"
    assert f"--seed N decides every draw (default: {default})" in told


@pytest.mark.usefixtures("same_process")
def test_a_record_names_the_command_that_was_given_and_not_that_of_the_process(
    workshop, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["pytest", "-q", "some tests"])
    argv = ["compare", "tiny.toml", "--strategies", "margin, entropy", "--seeds", "1"]
    argv += ["--set", "loop.cycles=1", "--jobs", "1", "--quiet", "--no-report", "--out", "out"]
    told = run_here(capsys, *argv)
    assert told.code == 0, told.err
    kept = json.loads((workshop / "out" / "comparison.json").read_text())["command"]
    assert kept.startswith("steepest compare tiny.toml --strategies 'margin, entropy' --seeds 1")

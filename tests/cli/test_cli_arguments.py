"""Arguments that commands share: read in one way, and said in the same words."""

from __future__ import annotations

import argparse
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
    assert f"--seed N random seed (default: {default})" in told


FORMER = [
    ("select", "--classes 10", "--num-classes 10", {"classes": 10, "class_names": None}),
    ("select", "--class-names cat,dog", "--classes", {"classes": None, "class_names": "cat,dog"}),
    ("select", "--export csv", "--format", {"export": "csv"}),
    ("label", "--batch-size 5", "--retrain-every", {"batch_size": 5}),
    ("bench gradnorm", "--batch 3", "--batch-size", {"batch_size": 3}),
    ("bench training", "--batch 3", "--batch-size", {"batch_size": 3}),
    ("bench training", "--runs 1,2", "--parallel", {"parallel": "1,2"}),
    ("bench training", "--workers 2", "--loader-workers", {"loader_workers": 2}),
    ("bench precision", "--labels 3", "--train-size", {"train_size": 3}),
    ("bench precision", "--pool 3", "--pool-size", {"pool_size": 3}),
    ("bench strategies", "--pools 10,20", "--pool-sizes", {"pool_sizes": "10,20"}),
    ("bench strategies", "--labelled 3", "--train-size", {"train_size": 3}),
    ("bench strategies", "--features 8", "--feature-size", {"feature_size": 8}),
    ("bench strategies", "--classes 3", "--num-classes", {"num_classes": 3}),
    ("bench strategies", "--k 3", "-k", {"k": 3}),
    ("bench labelling", "--labels 3", "--answers", {"answers": 3}),
    ("data check digits", "--option a=1 --option b=2", "--set", {"reader_options": ["a=1", "b=2"]}),
]
ELSE_NEEDED = {"select": "-k 1", "label": "photos"}


@pytest.mark.parametrize(("command", "former", "present", "stored"), FORMER)
def test_a_former_name_still_works_and_prints_the_present_one(
    command, former, present, stored, capsys
):
    words = [*command.split(), *ELSE_NEEDED.get(command, "").split()]
    parser, _ = make_parser(command.split()[0])
    plain = vars(parser.parse_args(words))
    assert not capsys.readouterr().err
    given = vars(parser.parse_args([*words, *former.split()]))
    assert given == {**plain, **stored}
    said = capsys.readouterr().err
    assert said.startswith(f"steepest: warning: {former.split()[0]} ")
    assert f" is deprecated: it is {present} now\n" in said


def options_of(name, parser):
    """Yield the shown options of a command and of those below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, sub in action.choices.items():
                yield from options_of(f"{name} {below}", sub)
        elif action.help != argparse.SUPPRESS:
            for option in action.option_strings:
                yield option, name, action


def test_an_option_takes_the_same_kind_of_value_in_every_command():
    """One name, one meaning: only ``--out`` is a file here and a folder there."""
    kinds = {}
    for command, parser in make_parser()[1].items():
        for option, name, action in options_of(command, parser):
            kinds.setdefault(option, {})[name] = (action.metavar, action.nargs, action.const)
    del kinds["--out"], kinds["--smoke"]
    several = {option: uses for option, uses in kinds.items() if len(set(uses.values())) > 1}
    assert not several
    assert len(kinds["--batch-size"]) == 3
    assert set(kinds["--runs"]) == {"bench cycle"}


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

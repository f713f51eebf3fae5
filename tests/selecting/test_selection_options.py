"""The options of looking at a pool: one class, from which keywords and flags follow."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import typing

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.cli.arguments import add_flags
from steepest.cli.select import add_arguments
from steepest.errors import InputError, UnknownNameError
from steepest.selecting.options import SelectionOptions
from steepest.strategies import Support

FIELDS = {field.name: field for field in dataclasses.fields(SelectionOptions)}
HINTS = typing.get_type_hints(SelectionOptions)
ELSEWHERE = {"class_names": "Sequence of any kind", "support": "a loop may make it anew"}


@pytest.mark.parametrize("function", [steepest.select, steepest.score, steepest.ActiveLoop])
def test_keywords_are_those_of_the_options(function):
    parameters = inspect.signature(function).parameters
    common = [name for name in FIELDS if name in parameters]
    assert len(common) >= 8
    made = function.__init__ if inspect.isclass(function) else function
    hints = typing.get_type_hints(made)
    for name in common:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == FIELDS[name].default, name
        if name not in ELSEWHERE and not (name == "task" and inspect.isclass(function)):
            assert hints[name] == HINTS[name], name
    missing = set(FIELDS) - set(common)
    assert missing in ({"shard"}, {"class_names"}, {"labelled", "shard", "class_names", "engine"})


@pytest.mark.parametrize("function", [steepest.select, steepest.score])
def test_docstrings_say_of_each_option_what_its_help_says(function):
    said = " ".join(inspect.getdoc(function).split()).replace("``", "").replace('"', "").lower()
    for name in [n for n in FIELDS if n in inspect.signature(function).parameters]:
        text = FIELDS[name].metadata["help"].split(", into")[0]
        assert f"{name}: {text}".lower() in said, name


def test_flags_have_the_default_and_help_of_their_option():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    flags = {action.dest: action for action in parser._actions}
    for name in ("task", "subset", "shard", "seed", "batch_size", "precision"):
        assert flags[name].default == FIELDS[name].default
        assert flags[name].help.startswith(FIELDS[name].metadata["help"])
    assert flags["precision"].choices == ("fp32", "tf32", "bf16")


def test_a_flag_takes_the_words_that_its_option_takes():
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, SelectionOptions, ["batch_size", "subset"])
    assert vars(parser.parse_args([])) == {"batch_size": "auto", "subset": None}
    assert parser.parse_args(["--batch-size", "auto", "--subset", "5"]).subset == 5
    assert parser.parse_args(["--batch-size", "32"]).batch_size == 32
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["--batch-size", "many"])


def test_values_are_plain_once_they_are_checked():
    how = SelectionOptions(
        labelled=np.array([3, 4]), subset=np.int64(5), seed=np.int64(2), class_names=["a", "b"]
    )
    assert (how.labelled, how.subset, how.seed) == ({3, 4}, 5, 2)
    assert how.class_names == ("a", "b")
    assert type(how.subset) is type(how.seed) is int
    assert dataclasses.replace(how, seed=3).labelled == {3, 4}
    assert SelectionOptions(support=Support(targets={1: 0})).labelled == {1}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"labelled": "abc"}, "give a list of ids"),
        ({"subset": 0}, "subset must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"task": 3}, "task must be"),
        ({"batch_size": "many"}, "batch_size must be"),
        ({"precision": "fp8"}, "precision"),
        ({"device": "tpu9"}, "tpu9"),
        ({"support": {}}, "support must be"),
        ({"shard": "5/4"}, "shard '5/4'"),
        ({"class_names": "ab"}, "class_names"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_at_once_and_everywhere_alike(given, error):
    with pytest.raises((InputError, UnknownNameError), match=error):
        SelectionOptions(**given)
    model, pool = nn.Linear(2, 3), torch.zeros(4, 2)
    for function in (steepest.select, steepest.score):
        if set(given) <= set(inspect.signature(function).parameters):
            extra = {"k": 1} if function is steepest.select else {}
            with pytest.raises((InputError, UnknownNameError), match=error):
                function(model, pool, **extra, **given)

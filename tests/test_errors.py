"""The tree of errors that is drawn is the tree that exists."""

from __future__ import annotations

import inspect
import re

import pytest

from steepest import errors
from steepest.errors import InputError, SteepestError, UnknownNameError

DRAWN_LINE = re.compile(r"^ {4}(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<extra>\w+)\))?")


def drawn_tree():
    """Read the docstring as name -> names of its parents."""
    tree: dict[str, list[str]] = {}
    above: dict[int, str] = {}
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        if found := DRAWN_LINE.match(line):
            depth = len(found["branch"]) // 4
            above[depth] = found["name"]
            parents = [above[depth - 1]] if depth else []
            tree[found["name"]] = parents + ([found["extra"]] if found["extra"] else [])
    return tree


def existing_tree():
    classes = inspect.getmembers(errors, inspect.isclass)
    return {
        name: [base.__name__ for base in made.__bases__ if base is not Exception]
        for name, made in classes
        if made.__module__ == errors.__name__
    }


def test_the_drawn_tree_is_the_one_that_exists():
    assert drawn_tree() == existing_tree()
    assert len(drawn_tree()) > 10


def test_every_error_can_be_caught_as_ours_and_every_warning_is_one():
    for name in existing_tree():
        made = getattr(errors, name)
        assert issubclass(made, errors.SteepestWarning if "Warning" in name else SteepestError)
        assert made.__doc__


def test_an_unknown_name_says_the_nearest_and_all_that_are_known():
    error = UnknownNameError("strategy", "entropi", ["random", "entropy"])
    assert str(error) == (
        "unknown strategy 'entropi': did you mean 'entropy'? known: entropy, random"
    )
    assert (error.kind, error.name, error.known) == ("strategy", "entropi", ["entropy", "random"])


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["random"], "unknown strategy 'zzz': known: random"),
        ([], "unknown strategy 'zzz': known: none"),
    ],
)
def test_an_unknown_name_without_a_near_one_makes_nothing_up(known, message):
    assert str(UnknownNameError("strategy", "zzz", known)) == message


def test_python_own_handlers_catch_our_errors_too():
    with pytest.raises(ValueError, match="unknown strategy"):
        raise UnknownNameError("strategy", "zzz", [])
    assert issubclass(InputError, ValueError)

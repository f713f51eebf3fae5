"""The tree of errors that is drawn is the tree that exists."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import steepest
from steepest import errors
from steepest.errors import (
    InputError,
    SteepestError,
    SteepestWarning,
    UnknownNameError,
    first_line,
)

SOURCE = Path(steepest.__path__[0])
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


def import_everything():
    for found in pkgutil.walk_packages(steepest.__path__, "steepest."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def public_classes(base):
    """Yield a class and all that are derived from it in this library, but for private ones."""
    if base.__module__.startswith("steepest.") and not base.__name__.startswith("_"):
        yield base
    for derived in base.__subclasses__():
        yield from public_classes(derived)


@pytest.fixture(scope="module")
def existing():
    import_everything()
    return {*public_classes(SteepestError), *public_classes(SteepestWarning)}


def test_the_drawn_tree_is_the_one_that_exists(existing):
    assert drawn_tree() == {
        made.__name__: [base.__name__ for base in made.__bases__ if base is not Exception]
        for made in existing
    }
    assert len(drawn_tree()) == len(existing) > 10


def test_every_error_says_what_it_is_for(existing):
    assert all(made.__doc__ for made in existing)


def categories(path):
    """Yield the name of the class of every warning that a file gives."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            named = [key.value for key in node.keywords if key.arg == "category"]
            yield ast.unparse([*node.args, *named][1])


def test_every_warning_is_of_a_drawn_class():
    given = {name for path in SOURCE.rglob("*.py") for name in categories(path)}
    assert "RegimeWarning" in given
    assert given <= drawn_tree().keys()


@pytest.mark.parametrize(
    ("error", "otherwise", "line"),
    [
        (ValueError("  one\ntwo"), "", "one"),
        (ValueError(), "", "ValueError"),
        (ValueError(" \n "), "no message", "no message"),
    ],
)
def test_the_first_line_of_an_error_is_never_empty(error, otherwise, line):
    assert first_line(error, otherwise) == line


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

"""List the strategies that can be named, or show one of them with its options."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from steepest.core.tables import to_table
from steepest.experiment.report.tables import text_table
from steepest.strategies.base import STRATEGIES, Needs, Scorer, Strategy, create

EXAMPLES = (
    "steepest strategies",
    "steepest strategies badge",
)

_WIDTH = 100
_SECTION = re.compile(r"^(?:Attributes|Args):\n", flags=re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}\S.*)*)", flags=re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "strategy", nargs="?", metavar="NAME", help="the one to show; without it, all are listed"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON, for programs")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.json:
        names = STRATEGIES.names() if arguments.strategy is None else [arguments.strategy]
        print(json.dumps([_table(create(name)) for name in names], ensure_ascii=False, indent=1))
    elif arguments.strategy is None:
        print(_listed())
        print("\n`steepest strategies NAME` shows one with its options.")
    else:
        print("\n".join(_shown(create(arguments.strategy))))
    return 0


def _listed() -> str:
    names = STRATEGIES.names()
    room = _WIDTH - max(map(len, names)) - 2
    rows = []
    for name in names:
        first, *rest = textwrap.wrap(_idea(STRATEGIES.get(name))[0].rstrip("."), room)
        rows += [[name, first], *(["", "  " + line] for line in rest)]
    return text_table(["strategy", "idea"], rows)


def _table(strategy: Strategy) -> dict[str, Any]:
    """Return the output of ``--json`` for one strategy."""
    idea, formula = _idea(type(strategy))
    meanings = _meanings(type(strategy))
    options = to_table(strategy)
    return {
        "name": strategy.name,
        "idea": idea,
        "formula": formula or None,
        "chooses": "by score" if isinstance(strategy, Scorer) else "batches",
        "needs": _words(strategy.needs).split(", "),
        "options": {
            name: {"default": value, "help": meanings.get(name, "")}
            for name, value in options.items()
        },
    }


def _shown(strategy: Strategy) -> Iterator[str]:
    """Yield the lines about one strategy."""
    cls = type(strategy)
    idea, formula = _idea(cls)
    yield strategy.name
    yield f"  {idea}"
    yield ""
    if formula:
        yield f"  score    {formula}"
    yield f"  chooses  {'by score' if isinstance(strategy, Scorer) else 'batches'}"
    yield f"  needs    {_words(strategy.needs)}"
    if strategy.needs_alone != strategy.needs:
        yield f"           {_words(strategy.needs_alone)} where nothing was trained along"
    if strategy.trains:
        yield f"  trains   {strategy.trains}"
    if strategy.name in STRATEGIES.names():
        yield f"  page     docs/strategies/{strategy.name}.md"
    yield ""
    options = to_table(strategy)
    yield "Options (--option NAME=VALUE) and their defaults:" if options else "It has no options."
    meanings = _meanings(cls)
    for name, value in options.items():
        default = "none" if value is None else json.dumps(value, ensure_ascii=False)
        yield f"\n  {name} = {default}"
        yield from _wrapped(meanings.get(name, ""))


def _words(needs: Needs) -> str:
    return (needs.name or "nothing").lower().replace("|", ", ")


def _idea(cls: type[Strategy]) -> tuple[str, str]:
    """Return the sentence about a strategy, and its score's formula or nothing."""
    sentence = (inspect.getdoc(cls) or "").partition("\n")[0]
    idea, _, formula = sentence.partition(": score(x) = ")
    return idea.rstrip(".") + "." if idea else "", formula.rstrip(".")


def _meanings(cls: type[Strategy]) -> dict[str, str]:
    """Return the documentation of a class's options from its docstring and its parents'."""
    found: dict[str, str] = {}
    for kind in reversed(cls.__mro__):
        if issubclass(kind, Strategy) and kind is not Strategy:
            _, *sections = _SECTION.split(inspect.cleandoc(kind.__doc__ or ""))
            for name, said in _ENTRY.findall("\n".join(sections)):
                found[name] = " ".join(said.replace("``", "").split())
    return found


def _wrapped(text: str) -> list[str]:
    indent = " " * 6
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)

"""Tables of the labelling page: the options of its command and the settings of a project."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from markdown_table import table

from steepest.cli.label import add_arguments
from steepest.labelling.project.settings import FIXED, Settings

_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def label_options() -> str:
    return table(("option", "meaning"), [(_words(a), _sentence(a.help)) for a in _actions()])


def label_settings() -> str:
    options = {action.dest: action.option_strings for action in _actions()}
    hints, meanings = get_type_hints(Settings), _meanings()
    rows = []
    for field in dataclasses.fields(Settings):
        option = ", ".join(f"`{words}`" for words in options.get(field.name, ())) or "–"
        once = " Set once, by the first start." if field.name in FIXED else ""
        row = (_kind(hints[field.name]), _default(field), option, meanings[field.name] + once)
        rows.append((f"`{field.name}`", *row))
    return table(("setting", "type", "default", "option", "meaning"), rows)


def _actions() -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    return [action for action in parser._actions if action.help is not argparse.SUPPRESS]


def _words(action: argparse.Action) -> str:
    value = f" {action.metavar}" if action.nargs != 0 and action.metavar else ""
    names = action.option_strings or [""]
    return ", ".join(f"`{(name + value).strip()}`" for name in names)


def _sentence(text: str | None) -> str:
    return "" if text is None else text[0].upper() + text[1:] + "."


def _meanings() -> dict[str, str]:
    """Read the ``Attributes`` section of the docstring, with lines that go on."""
    section = (inspect.getdoc(Settings) or "").split("Attributes:\n")[1].split("\n\n")[0]
    joined = re.sub(r"\n {5,}", " ", section)
    found = dict(re.findall(r"^    (\w+): (.*)$", joined, flags=re.MULTILINE))
    return {
        name: text.replace("``", "`").replace("; None ", "; – ") for name, text in found.items()
    }


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    return "–" if field.default is None else f"`{json.dumps(field.default)}`"


def _kind(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        return _kind(next(part for part in get_args(hint) if part is not type(None)))
    if get_origin(hint) is tuple:
        return f"list of {_kind(get_args(hint)[0])}s"
    return "table" if get_origin(hint) is Mapping else _WORDS.get(hint, "text")


TABLES: Mapping[str, Callable[[], str]] = types.MappingProxyType(
    {"label options": label_options, "label settings": label_settings}
)

"""Variants of a comparison: labels, each a strategy with its options.

On the command line and in plans a variant is written ``NAME`` or ``LABEL=NAME(OPTION=VALUE,…)``.
``package.module:Class`` is a name too; its label is the strategy's own name, if no other is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steepest.errors import InputError
from steepest.experiment.config import Config, StrategyPart, parse_setting
from steepest.strategies import create
from steepest.strategies.base import STRATEGIES

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Variant:
    """A strategy with its options, under the label that names it in folders and tables.

    Attributes:
        label: Names the folder of its runs, and stands in tables and figures.
        name: Name of the strategy, or ``package.module:Class``.
        options: All its options; None takes those of the configuration if that names the
            strategy, and else the defaults.

    Raises:
        UnknownNameError: For an unknown strategy or option; names the nearest.
        InputError: If the label cannot be one.
    """

    label: str
    name: str
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        kind = type(create(self.name, self.options))
        check_folder_name("label", self.label)
        if self.label in STRATEGIES.names() and STRATEGIES.get(self.label) is not kind:
            raise InputError(
                f"label {self.label!r} is the name of another strategy than {self.name!r}: "
                "choose another label"
            )

    def config(self, common: Config, seed: int) -> Config:
        """Return an experiment under this strategy and a seed."""
        if self.options is None:
            return common.with_strategy(self.name, seed)
        return replace(
            common, strategy=StrategyPart(name=self.name, options=self.options), seed=seed
        )


def check_folder_name(kind: str, name: str) -> None:
    """Refuse what cannot name a folder on every system, or leads out of where it belongs.

    Raises:
        InputError: Naming the characters allowed.
    """
    if not _FOLDER.fullmatch(name):
        raise InputError(
            f"{kind} {name!r}: begin with a letter or digit, and use letters, digits, '-', '_', "
            "'.' and '+' alone, 100 at most"
        )


def parse_variants(texts: Iterable[str | Variant]) -> tuple[Variant, ...]:
    """Read variants, each text a list separated by commas; duplicates count once.

    Raises:
        UnknownNameError: For an unknown strategy or option.
        InputError: If a text is not of that form, or a label stands for two different things.
    """
    found: dict[str, Variant] = {}
    for text in texts:
        for variant in (text,) if isinstance(text, Variant) else map(_parse, split_list(text)):
            if found.setdefault(variant.label, variant) != variant:
                raise InputError(
                    f"label {variant.label!r} is given twice with different options: "
                    "labels must be distinct"
                )
    return tuple(found.values())


def split_list(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes; empty parts are left out.

    Raises:
        InputError: If a bracket or quote is not closed.
    """
    ends = [place for place, sign, depth in _scan(text) if sign == "," and not depth]
    starts = [0, *(end + 1 for end in ends)]
    parts = [text[a:b].strip() for a, b in zip(starts, [*ends, len(text)], strict=True)]
    return [part for part in parts if part]


def variant_tables(variants: Sequence[Variant], common: Config) -> dict[str, dict[str, Any]]:
    """Return name and options of each label as plain tables, ready for JSON."""
    parts = {variant.label: variant.config(common, common.seed).strategy for variant in variants}
    return {
        label: json.loads(json.dumps({"name": part.name, "options": dict(part.options)}))
        for label, part in parts.items()
    }


def _scan(text: str) -> Iterator[tuple[int, str, int]]:
    """Give each sign outside of quotes, its place, and how many brackets are open there."""
    waiting: list[str] = []
    quote = ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif sign in _CLOSING.values():
            if not waiting or waiting.pop() != sign:
                raise InputError(f"{text!r}: {sign!r} closes a bracket that is not open; remove it")
        else:
            yield place, sign, len(waiting)
    if waiting or quote:
        raise InputError(f"{text!r}: close it with {quote or waiting[-1]!r}")


def _parse(text: str) -> Variant:
    head, bracket, inside = text.partition("(")
    label, equals, name = (part.strip() for part in head.partition("="))
    if not equals:
        name = label
    if not bracket:
        own = not equals and ":" in name
        return Variant(STRATEGIES.get(name).name if own else label, name)
    if not inside.endswith(")"):
        raise InputError(f"{text!r}: write it as LABEL=NAME(OPTION=VALUE,…)")
    if not equals:
        raise InputError(f"{text!r}: options need a label; write LABEL={text}")
    options: dict[str, Any] = {}
    for setting in split_list(inside[:-1]):
        path, value = parse_setting(setting)
        option = ".".join(path)
        if option in options:
            raise InputError(f"{text!r}: {option} is given twice; give it once")
        options[option] = value
    return Variant(label, name, options)

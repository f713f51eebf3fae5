"""Dataclasses from tables: types, nesting, and errors that name the nearest key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from steepest.core.tables import from_table, to_table
from steepest.errors import ConfigError, UnknownNameError


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1


@dataclass(frozen=True)
class Outer:
    count: int
    name: str = "x"
    flag: bool = False
    mode: Literal["a", "b"] = "a"
    steps: tuple[int, ...] = ()
    limit: int | None = None
    ids: tuple[int | str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def test_tables_come_back_as_they_went():
    made = Outer(3, "y", True, "b", (1, 2), 7, (1, "z"), {"k": [1]}, Inner(2.0))
    assert from_table(Outer, to_table(made)) == made
    assert from_table(Outer, {"count": 1}) == Outer(1)


def test_whole_numbers_are_good_floats():
    assert from_table(Inner, {"rate": 1}).rate == 1.0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "'count' is missing"),
        ({"count": "3"}, "count = '3': expected int, not str"),
        ({"count": True}, "expected int, not bool"),
        ({"count": 1.5}, "expected int"),
        ({"count": 1, "flag": 1}, "expected bool"),
        ({"count": 1, "steps": 3}, "expected tuple"),
        ({"count": 1, "steps": ["a"]}, "expected int"),
        ({"count": 1, "limit": "many"}, "expected int"),
        ({"count": 1, "inner": 3}, "expected Inner"),
        ({"count": 1, "options": 3}, "expected collections.abc.Mapping"),
    ],
)
def test_wrong_values_say_what_was_expected(table, message):
    with pytest.raises(ConfigError, match=message):
        from_table(Outer, table)


def test_unknown_keys_and_values_name_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'count'"):
        from_table(Outer, {"cuont": 1})
    with pytest.raises(UnknownNameError, match=r"key in \[inner\] 'rat'.*'rate'"):
        from_table(Outer, {"count": 1, "inner": {"rat": 1}})
    with pytest.raises(UnknownNameError, match="value for mode 'c'"):
        from_table(Outer, {"count": 1, "mode": "c"})

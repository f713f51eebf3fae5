"""Whatever is wrong with a text, it is said in one way."""

from __future__ import annotations

import pytest

from steepest.core.parsing import parse_json, parse_toml

DEEP = "[" * 100_000


def test_what_is_right_is_read():
    assert parse_json('{"a": [1, "é"]}') == {"a": [1, "é"]}
    assert parse_json(b"[null]") == [None]
    assert parse_toml("a.b = [1]") == {"a": {"b": [1]}}


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, "9" * 5000, "{", ""])
def test_json_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


@pytest.mark.parametrize("text", [f"a = {DEEP}", f"a = {'9' * 5000}", "a ="])
def test_toml_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_toml(text)

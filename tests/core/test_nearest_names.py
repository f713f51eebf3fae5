"""Which names are suggested for one that is not there."""

from __future__ import annotations

import pytest

from steepest.core.wording import nearest_names, suggest
from steepest.errors import UnknownNameError
from steepest.strategies import create, names


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gradnorm", ["entropy-gradnorm", "expected-gradnorm", "fisher-gradnorm"]),
        ("gradnrom", ["entropy-gradnorm", "expected-gradnorm", "fisher-gradnorm"]),
        ("GradNorm_Entropy", ["entropy-gradnorm"]),
        ("fisher", ["fisher-gradnorm"]),
        ("entrpy", ["entropy"]),
        ("coreset", ["core-set"]),
        ("margn", ["margin"]),
        ("xyz", []),
        ("", []),
    ],
)
def test_strategies_are_suggested_by_their_parts_and_their_letters(name, near):
    known = ["core-set", "entropy", "entropy-gradnorm", "expected-gradnorm", "fisher-gradnorm"]
    assert nearest_names(name, [*known, "margin", "random"]) == near


def test_a_part_of_a_strategys_name_suggests_the_strategies_that_have_it():
    with pytest.raises(UnknownNameError) as caught:
        create("gradnorm", {})
    said = str(caught.value)
    hint = said[said.index("did you mean") : said.index("known:")]
    assert all(f"'{name}'" in hint for name in names() if "gradnorm" in name)
    assert "random" not in hint


def test_a_suggestion_is_a_question():
    assert suggest("fc", ["fc1", "fc2", "fc3", "body"]) == "did you mean 'fc1', 'fc2' or 'fc3'?"
    assert suggest("bdoy", ["fc1", "body"]) == "did you mean 'body'?"
    assert suggest("zzz", ["fc1", "body"]) == ""
    assert suggest("anything", []) == ""

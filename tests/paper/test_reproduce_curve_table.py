from __future__ import annotations

import pytest

from steepest.paper.page_parts import curve_table
from steepest.paper.published_numbers import row


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({2: 5.0}, "ours, n = 1 (seed 2)"),
        ({0: 5.0, 2: 7.0}, "ours, n = 2 (seeds 0, 2)"),
        ({}, "ours: not there"),
    ],
)
def test_the_seeds_behind_a_row_are_named(values, told):
    rows = [row({"method": "margin", "share": share}, values) for share in (10, 20)]
    assert curve_table("title", rows).rows[0][:2] == ("margin", told)


def test_a_row_has_the_seeds_of_all_its_places():
    rows = [row({"method": "margin", "share": share}, {share: 1.0}) for share in (0, 1)]
    assert curve_table("title", rows).rows[0][1] == "ours, n = 1 (seeds 0, 1)"

"""A number and what it counts."""

from __future__ import annotations

import pytest

from steepest.core.wording import counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 labels"), (1, "1 label"), (2, "2 labels"), (21, "21 labels")]
)
def test_one_is_not_several(count, said):
    assert counted(count, "label") == said


def test_what_takes_no_s_is_said_in_full():
    said = [counted(n, "sample still waits", "samples still wait") for n in (1, 2)]
    assert said == ["1 sample still waits", "2 samples still wait"]

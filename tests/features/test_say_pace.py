from __future__ import annotations

import pytest

from steepest.features.passes import say_pace


@pytest.mark.parametrize(
    ("done", "total", "seconds", "said"),
    [
        (0, 10, 1.0, ""),
        (100, 100, 10.0, "10/s"),
        (100, 400, 10.0, "10/s, about 30 s left"),
        (100, 3_100, 10.0, "10/s, about 5 min left"),
        (100, 100_100, 10.0, "10/s, about 3 h left"),
    ],
)
def test_the_pace_says_how_long_the_rest_takes(done, total, seconds, said):
    assert say_pace(done, total, seconds) == said

"""A loop that stops when enough is labelled."""

from __future__ import annotations

import math

import pytest
from loop_parts import Teacher, Trainer, make_points

from steepest import ActiveLoop
from steepest.errors import InputError, UnknownNameError
from steepest.loop import Flat, Reached, Round


def rounds_of(*values, metric="metric"):
    return [
        Round(number=n, labelled=n, learnt_from="", metrics={metric: value})
        for n, value in enumerate(values, start=1)
    ]


def loop_of(*values, **changes):
    """A loop whose rounds are measured as told."""
    points, classes = make_points()
    measured = iter(values)
    parts = {"fit": Trainer(points).fit, "label": Teacher(classes), "progress": False}
    evaluate = None if not values else (lambda: next(measured))
    return ActiveLoop(points, evaluate=evaluate, strategy="margin", **parts | changes)


@pytest.mark.parametrize(
    ("criterion", "values", "enough"),
    [
        (Reached(0.9), (0.5, 0.9), True),
        (Reached(0.9), (0.95, 0.89), False),
        (Reached(0.9, rounds=2), (0.95,), False),
        (Reached(0.9, rounds=2), (0.5, 0.95, 0.9), True),
        (Reached(0.9, rounds=2), (0.95, 0.5, 0.95), False),
        (Flat(0.125, rounds=2), (0.5, 0.5), False),
        (Flat(0.125, rounds=2), (0.5, 0.5, 0.5), True),
        (Flat(0.125, rounds=2), (0.5, 0.25, 0.625), False),
        (Flat(0.125, rounds=2), (0.5, 0.875, 0.25, 0.9), True),
        (Flat(0.125, rounds=1), (0.5, 0.75), False),
    ],
)
def test_criteria_look_at_the_last_rounds(criterion, values, enough):
    assert criterion(rounds_of(*values)) is enough


def test_a_loop_stops_when_it_may_and_goes_on_when_asked():
    loop = loop_of(0.5, 0.9, 0.9, 0.95, 0.2)
    assert len(loop.run(5, 4, until=Reached(0.8))) == 2
    assert len(loop.run(5, 4, until=Reached(0.8))) == 2  # as after a restart
    assert len(loop.run(5, 4, until=lambda records: records[-1].labelled >= 16)) == 4
    assert len(loop.run(5, 4)) == 5


def test_no_label_is_asked_for_after_the_last_round():
    teacher = Teacher(make_points()[1])
    loop_of(0.9, label=teacher).run(5, 4, until=Reached(0.8))
    assert len(teacher.asked) == 4


def test_what_is_not_measured_cannot_stop_a_loop():
    with pytest.raises(InputError, match="no metric to stop by: give the loop evaluate="):
        loop_of().run(3, 4, until=Flat(0.1))
    with pytest.raises(UnknownNameError, match="accuracy"):
        Reached(0.9, "acuracy")(rounds_of(0.5, metric="accuracy"))
    for criterion in (Flat, Reached):
        with pytest.raises(InputError, match="rounds must be at least 1"):
            criterion(0.1, rounds=0)
        with pytest.raises(InputError, match="is nan, which no metric can be compared with"):
            criterion(math.nan)
    with pytest.raises(InputError, match="until must be a function"):
        loop_of(0.5).run(3, 4, until=0.9)

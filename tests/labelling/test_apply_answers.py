"""Answers reach the pool once, however often they are applied."""

from __future__ import annotations

import numpy as np
import pytest

from steepest.errors import InputError, PoolError
from steepest.labelling import Answers, ScriptedLabeller, apply
from steepest.pool import Pool, State


@pytest.fixture
def pool():
    made = Pool.create(range(6))
    made.query([0, 1, 2, 3], cycle=1, who="loop")
    return made


def calls(pool):
    return [(event.sequence, event.verb, event.id, event.label) for event in pool.events()]


def test_labels_and_skips_are_written_and_the_rest_stays_queried(pool):
    labeller = ScriptedLabeller({0: 7, 1: [1, 2]}, skip=[2])
    apply(pool, labeller.label(pool.ids(State.QUERIED)), cycle=1, who=labeller.name)
    assert pool.labelled() == ([0, 1], [7, [1, 2]])
    assert pool.ids(State.SKIPPED) == [2]
    assert pool.ids(State.QUERIED) == [3]
    assert pool.history(0)[-1].who == "script"
    assert pool.cycle_of(2) == 1


def test_applying_again_writes_nothing(pool):
    answers = Answers({0: 7, 1: [1, 2]}, (2,))
    apply(pool, answers, cycle=1, who="ann")
    before = calls(pool)
    apply(pool, answers, cycle=2, who="bob")
    apply(pool, Answers({0: np.int64(7), 1: (1, 2)}), cycle=2, who="bob")  # type: ignore[dict-item]
    assert calls(pool) == before


def test_answers_that_are_partly_there_are_completed(pool):
    pool.label([0], [7], cycle=1, who="ann")
    apply(pool, Answers({0: 7, 1: 8}, (2, 5)), cycle=1, who="ann")
    assert calls(pool)[-3:] == [(3, "label", 1, 8), (4, "skip", 2, None), (4, "skip", 5, None)]


def test_no_answers_write_nothing(pool):
    before = calls(pool)
    apply(pool, Answers(), cycle=1, who="ann")
    assert calls(pool) == before


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        (Answers({1: 5, 0: 8}), PoolError, "sample 0 is labelled 7 already and 8 .* use relabel"),
        (Answers({1: 5, 0: "7"}), PoolError, "use relabel"),
        (Answers({1: 5}, (2, 0)), PoolError, "cannot skip sample 0: it is labelled; use unlabel"),
        (Answers({1: 5, 4: 5}), PoolError, "cannot label sample 4: it is skipped; use unlabel"),
        (Answers({1: 5, 9: 5}), InputError, "sample 9 is not in the pool"),
        (Answers({1: 5}, (9,)), InputError, "sample 9 is not in the pool"),
        (Answers({1: 0.5}), InputError, "label 0.5"),  # type: ignore[dict-item]
    ],
)
def test_answers_that_contradict_the_pool_are_refused_as_a_whole(pool, answers, error, message):
    pool.label([0], [7], cycle=1, who="ann")
    pool.skip([4], cycle=1, who="ann")
    before = calls(pool)
    with pytest.raises(error, match=message):
        apply(pool, answers, cycle=1, who="ann")
    assert calls(pool) == before


def test_a_sample_cannot_be_labelled_and_skipped_at_once():
    with pytest.raises(InputError, match="decide on one"):
        Answers({1: 0}, (1,))

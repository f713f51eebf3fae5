"""Answers that would teach the wrong thing, or nothing, are told instead of taken."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from loop_parts import Trainer, make_points
from torch import nn

import steepest
from steepest.errors import AllSkippedWarning, InputError

POINTS, CLASSES = make_points()


def make(label, **options):
    given = {"fit": Trainer(POINTS).fit, "strategy": "margin", "progress": False}
    return steepest.ActiveLoop(POINTS, label=label, **{**given, **options})


def counts(loop):
    return {str(state): count for state, count in loop.pool.counts().items() if count}


@pytest.mark.parametrize(("k", "lost"), [(1, 10), (4, 12), (15, 15)])
def test_a_run_in_which_all_is_skipped_stops_and_says_so(k, lost):
    answers = {}
    loop = make(lambda ids: [answers.get(i) for i in ids])
    with pytest.warns(AllSkippedWarning, match=f"all {lost} samples .*unlabel takes a skip back"):
        assert loop.run(3, k) == ()
    assert counts(loop) == {"unlabelled": 60 - lost, "skipped": lost}
    answers.update(enumerate(CLASSES))
    assert [done.labelled for done in loop.run(2, k)] == [k, 2 * k]


def test_a_few_skips_in_a_row_are_no_reason_to_stop():
    asked = []

    def label(ids):
        asked.extend(ids)
        return [CLASSES[i] if len(asked) > 9 else None for i in ids]

    loop = make(label)
    assert [done.labelled for done in loop.run(2, 1)] == [1, 2]
    assert counts(loop) == {"unlabelled": 49, "labelled": 2, "skipped": 9}


def test_skips_at_the_end_of_the_pool_are_its_end_unless_nothing_is_labelled():
    loop = make(lambda ids: [None] * len(ids), labels=dict(enumerate(CLASSES[:40])))
    assert [done.labelled for done in loop.run(5, 20)] == [40]
    assert counts(loop) == {"labelled": 40, "skipped": 20}
    trainer = Trainer(POINTS)
    few = steepest.ActiveLoop(
        POINTS[:3], fit=trainer.fit, label=lambda ids: [None] * 3, progress=False
    )
    with pytest.warns(AllSkippedWarning, match="all 3 samples"):
        few.run(1, 3)


def test_those_who_have_yet_to_answer_are_waited_for_without_a_word():
    loop = make(lambda ids: dict.fromkeys(ids[: len(ids) - 2]))
    assert loop.run(2, 20) == ()
    assert counts(loop) == {"unlabelled": 40, "queried": 2, "skipped": 18}


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (math.nan, "leave the sample out if nobody knows yet"),
        (np.float64("nan"), "give None if nobody ever will"),
        ("", "leave the sample out"),
        (0.37, "regression"),
        (np.float32(1), "give int"),
        (torch.tensor(True), "give 0 or 1"),
        ([True, False, True], "list the numbers of the classes"),
    ],
)
def test_what_tables_and_keyboards_say_for_no_class_is_refused(label, message):
    loop = make(lambda ids: {ids[0]: label})
    with pytest.raises(InputError, match=message) as caught:
        loop.run(1, 2)
    assert f"of sample {loop.waiting[0]} is no class" in str(caught.value)
    assert len(loop.waiting) == 2


@pytest.mark.parametrize("k", [1, 3])
def test_pairs_in_a_list_are_not_taken_for_two_classes_each(k):
    loop = make(lambda ids: [(np.int64(i), CLASSES[i]) for i in ids[::-1]])
    with pytest.raises(InputError, match="pairs of id and label: return dict"):
        loop.run(1, k)
    assert len(loop.waiting) == k


@pytest.mark.parametrize(("k", "label"), [(3, (1, 2)), (1, [38, 2])])
def test_two_classes_each_are_taken(k, label):
    loop = make(lambda ids: [label] * len(ids), fit=lambda ids, labels: nn.Linear(2, 3))
    loop.run(1, k)
    ids, labels = loop.pool.labelled()
    assert labels == [list(label)] * k
    assert k > 1 or ids == [label[0]]


def test_a_column_of_a_table_goes_by_its_index_and_not_by_its_order():
    class Column:
        def __init__(self, index, values):
            self.index, self.values = index, values

        def items(self):
            return zip(self.index, self.values, strict=True)

        def tolist(self):
            return self.values

    def label(ids):
        return Column(sorted(ids), [CLASSES[i] for i in sorted(ids)])

    loop = make(label)
    loop.run(1, 6)
    ids, labels = loop.pool.labelled()
    assert labels == [CLASSES[i] for i in ids]


def test_an_evaluation_that_failed_is_made_again_without_another_fit():
    trainer, scores = Trainer(POINTS), [math.nan, 0.5]
    loop = make(lambda ids: [CLASSES[i] for i in ids], fit=trainer.fit, evaluate=lambda: scores[0])
    with pytest.raises(InputError, match="without those that are not"):
        loop.run(1, 5)
    assert loop.records == ()
    scores.pop(0)
    (only,) = loop.run(1, 5)
    assert (only.metrics, len(trainer.calls)) == ({"metric": 0.5}, 1)
    assert "fit" in only.seconds
    loop.learn()
    assert len(trainer.calls) == 2

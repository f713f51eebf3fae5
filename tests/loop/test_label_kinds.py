"""Numbers and texts among the labels of one loop are told instead of taken."""

from __future__ import annotations

import numpy as np
import pytest
from loop_parts import Trainer, make_points

import steepest
from steepest.errors import InputError
from steepest.labelling import Answers
from steepest.pool import Pool

POINTS, _ = make_points()
SLIP = "label 'cat' of sample {} is a text and 1 of sample {} is not: give the names of all"


def make(label=None, **options):
    given = {"fit": Trainer(POINTS).fit, "strategy": "margin", "progress": False}
    return steepest.ActiveLoop(POINTS, label=label, **{**given, **options})


def test_a_text_beside_numbers_is_refused_with_the_others_of_its_call():
    loop = make()
    with pytest.raises(InputError, match=SLIP.format(4, 3) + " classes, or the numbers of all$"):
        loop.tell({3: 1, 4: "cat", 5: 0})
    assert loop.pool.labelled() == ([], [])
    loop.tell({3: 1})
    with pytest.raises(InputError, match=SLIP.format(4, 3) + ".*; loop.pool.relabel"):
        loop.tell({4: "cat"})
    with pytest.raises(InputError, match=SLIP.format(4, 3)):
        loop.tell(Answers({4: "cat"}))
    with pytest.raises(InputError, match="'1' of sample 4 is a text and 1 of sample 3"):
        loop.tell({4: "1"})
    assert loop.pool.labelled() == ([3], [1])


def test_so_are_those_that_are_given_or_asked_for():
    with pytest.raises(InputError, match=SLIP.format(1, 0)):
        make(labels={0: 1, 1: "cat"})
    loop = make(lambda ids: (pair for pair in zip(ids, [1, "cat", 1], strict=True)))
    with pytest.raises(InputError, match=r"'cat' of sample \d+ is a text"):
        loop.run(1, 3)
    assert loop.pool.labelled()[1] == [1]


def test_numbers_of_all_sorts_go_together():
    loop = make(labels={0: 1})
    loop.tell({1: np.int64(2), 2: np.uint8(0), 3: [0, 2], 4: [], 5: None})
    loop.tell(Answers({6: np.int32(1)}))
    assert loop.pool.labelled()[1] == [1, 2, 0, [0, 2], [], 1]
    words = make(labels={0: "cat"})
    words.tell({1: np.str_("dog"), 2: "1"})
    assert words.pool.labelled()[1] == ["cat", "dog", "1"]


def test_labels_that_were_corrected_decide_anew():
    loop = make(labels={0: 1})
    loop.pool.relabel([0], ["dog"], cycle=1, who="me")
    loop.tell({1: "cat"})
    with pytest.raises(InputError, match=r"'dog' of sample 0 is a text and 1 of sample 2"):
        loop.tell({2: 1})


def test_a_loop_goes_on_with_its_kind_and_one_that_is_mixed_already_with_both(tmp_path):
    with make(folder=tmp_path / "numbers", labels={0: 1}):
        pass
    with (
        make(folder=tmp_path / "numbers") as loop,
        pytest.raises(InputError, match=SLIP.format(1, 0)),
    ):
        loop.tell({1: "cat"})
    (tmp_path / "mixed").mkdir()
    with Pool.create(range(len(POINTS)), tmp_path / "mixed" / "labels.jsonl") as pool:
        pool.label([0, 1], [1, "cat"], cycle=0, who="earlier")
    with make(folder=tmp_path / "mixed", labels={2: 1}) as loop:
        loop.tell({3: "cat"})
        loop.tell({4: 2})
        assert loop.pool.labelled()[1] == [1, "cat", 1, "cat", 2]

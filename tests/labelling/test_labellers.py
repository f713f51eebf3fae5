"""What every labeller promises, and what each does on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from steepest.data.sealed import SealedLabels
from steepest.errors import HiddenLabelError, InputError
from steepest.labelling import Answers, Labeller, OracleLabeller, ScriptedLabeller

TRUE = torch.tensor([3, 1, 4, 1, 5, 9])
NAMES = ["a.png", "b.png", "ç.png", "d.png", "e.png", "f.png"]

LABELLERS: dict[str, Any] = {
    "oracle by position": lambda: (OracleLabeller(SealedLabels(TRUE)), list(range(6))),
    "oracle by name": lambda: (OracleLabeller(SealedLabels(TRUE), NAMES), NAMES),
    "script": lambda: (
        ScriptedLabeller({"a.png": 1, "ç.png": "cat", "d.png": [1, 2]}, ["e.png"], ids=NAMES),
        NAMES,
    ),
    "empty script": lambda: (ScriptedLabeller({}, ids=range(6)), list(range(6))),
}


@pytest.fixture(params=LABELLERS)
def labeller_and_ids(request):
    return LABELLERS[request.param]()


def test_it_is_a_labeller_with_a_name(labeller_and_ids):
    labeller, _ = labeller_and_ids
    assert isinstance(labeller, Labeller)
    assert labeller.name


def test_it_answers_only_about_the_samples_asked_about(labeller_and_ids):
    labeller, ids = labeller_and_ids
    for asked in (ids, ids[1:4], ids[::-2], ids[:1], ids[:0]):
        answers = labeller.label(asked)
        assert set(answers.labels) | set(answers.skipped) <= set(asked)
        assert not set(answers.labels) & set(answers.skipped)


def test_a_sample_gets_the_same_answer_whoever_it_is_asked_with(labeller_and_ids):
    labeller, ids = labeller_and_ids
    together = labeller.label(ids)
    assert labeller.label(ids) == together
    for sample in ids:
        alone = labeller.label([sample])
        assert alone.labels.get(sample) == together.labels.get(sample)
        assert (sample in alone.skipped) == (sample in together.skipped)


def test_changing_an_answer_does_not_change_the_next(labeller_and_ids):
    labeller, ids = labeller_and_ids
    first = labeller.label(ids)
    for label in first.labels.values():
        if isinstance(label, list):
            label.append(99)
    first.labels[ids[0]] = 77
    assert 77 not in labeller.label(ids).labels.values()
    assert [1, 2, 99] not in labeller.label(ids).labels.values()


@pytest.mark.parametrize("unknown", [6, -1, "z.png", 1.0, None, True])
def test_an_unknown_sample_is_refused(labeller_and_ids, unknown):
    labeller, ids = labeller_and_ids
    with pytest.raises(InputError, match=r"sample|id"):
        labeller.label([ids[0], unknown])


def test_a_sample_asked_about_twice_is_refused(labeller_and_ids):
    labeller, ids = labeller_and_ids
    with pytest.raises(InputError, match="there twice"):
        labeller.label([ids[0], ids[1], ids[0]])


def test_the_oracle_gives_every_true_label_and_says_why_it_looked():
    sealed = SealedLabels(TRUE)
    oracle = OracleLabeller(sealed)
    assert sealed.purposes == ("oracle labeller",)
    assert oracle.label([5, 0, 2]) == Answers({5: 9, 0: 3, 2: 4})
    assert oracle.label(np.array([1])) == Answers({1: 1})  # type: ignore[arg-type]
    assert {type(label) for label in oracle.label(range(6)).labels.values()} == {int}
    with pytest.raises(HiddenLabelError):
        sealed[0]


def test_the_oracle_finds_names_by_their_place():
    assert OracleLabeller(SealedLabels(TRUE), NAMES).label(["f.png", "ç.png"]).labels == {
        "f.png": 9,
        "ç.png": 4,
    }
    assert OracleLabeller(SealedLabels(TRUE), [9, 8, 7, 6, 5, 4]).label([4]).labels == {4: 9}


@pytest.mark.parametrize("ids", [range(5), ["a"] * 6, NAMES[:1]])
def test_the_oracle_needs_one_id_for_each_label(ids):
    with pytest.raises(InputError, match=r"give (one id per label|each id once)"):
        OracleLabeller(SealedLabels(TRUE), ids)


def test_a_script_leaves_samples_without_an_answer_alone():
    script = ScriptedLabeller({1: 10, 2: np.int64(20)}, skip=[3])  # type: ignore[dict-item]
    answers = script.label([4, 3, 2, 1, 100])
    assert answers == Answers({2: 20, 1: 10}, (3,))
    assert type(answers.labels[2]) is int


@pytest.mark.parametrize(
    ("answers", "skip", "message"),
    [
        ({1: 0}, [1], "labelled and skipped"),
        ({}, [1, 1], "there twice"),
        ({1: 0.5}, [], "label 0.5"),
        ({9: 0}, [], "no sample 9"),
        ({}, [9], "no sample 9"),
    ],
)
def test_a_script_that_contradicts_itself_is_refused(answers, skip, message):
    with pytest.raises(InputError, match=message):
        ScriptedLabeller(answers, skip, ids=range(5))

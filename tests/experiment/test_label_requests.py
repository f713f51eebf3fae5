"""Who labels for an experiment is checked before anything of it is kept."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from steepest.core.tables import from_table
from steepest.data import load
from steepest.errors import InputError
from steepest.experiment import Config, Experiment
from steepest.labelling import Answers
from steepest.pool import Pool

DATA = load("digits")
CONFIG = from_table(
    Config,
    {
        "device": "cpu",
        "data": {"name": "digits"},
        "model": {"name": "small-cnn"},
        "strategy": {"name": "margin"},
        "loop": {"initial": 4, "k": 2, "cycles": 2, "subset": 4},
        "training": {"epochs": 1, "batch_size": 2, "lr": 0.01, "schedule": "constant"},
    },
)


class Somebody:
    name = "somebody"

    def __init__(self, answer):
        self.label = answer


def run(folder, answer):
    return Experiment(CONFIG, folder, data=DATA, labeller=Somebody(answer)).run()


def some(ids):
    return Answers({i: i % 10 for i in ids})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda ids: Answers(), r"somebody gave no label to the 4 samples.*run again once"),
        (lambda ids: Answers({}, tuple(ids)), r"skipped all 4.*another folder.*loop\.initial"),
        (lambda ids: Answers(dict.fromkeys(ids, 99)), r"label 99 is not a class of 0\.\.9"),
        (lambda ids: Answers(dict.fromkeys(ids, "cat")), "label 'cat' is not a class"),
        (lambda ids: Answers(dict.fromkeys(range(30), 1)), "was not asked about: leave it out"),
        (lambda ids: Answers({}, tuple(range(30))), "was not asked about: leave it out"),
        (lambda ids: 7, "label returned a int: return labels by id"),
        (lambda ids: [1], "label returned 1 label for 4 samples"),
    ],
)
def test_a_labeller_that_answers_something_else_is_one_line(tmp_path, answer, message):
    with pytest.raises(InputError, match=message) as caught:
        run(tmp_path / "run", answer)
    assert "\n" not in str(caught.value)


def test_what_was_answered_wrongly_is_not_kept_and_can_be_answered_again(tmp_path):
    wrong = [lambda ids: Answers(dict.fromkeys(ids, 99)), lambda ids: some(range(30))]
    for answer in wrong:
        with pytest.raises(InputError):
            run(tmp_path / "run", answer)
    assert [record.labelled for record in run(tmp_path / "run", some)] == [4, 6]
    with Pool.open(tmp_path / "run" / "pool.jsonl") as pool:
        assert len(pool.labelled()[0]) == 6


@pytest.mark.parametrize("form", [dict, lambda pairs: [label for _, label in pairs], iter])
def test_labels_by_id_or_one_each_or_in_pairs_do_as_answers_do(tmp_path, form):
    def answer(ids):
        return form([(i, np.int64(i % 10)) for i in ids])

    told, wanted = run(tmp_path / "told", answer), run(tmp_path / "answers", some)
    assert [r.model for r in told] == [r.model for r in wanted]


def test_what_cannot_be_asked_is_refused_before_anything_begins(tmp_path):
    class Nameless:
        label = some

    for who in (object(), Nameless()):
        with pytest.raises(InputError, match=r"without a name or without label\(ids\)"):
            Experiment(CONFIG, tmp_path / "run", data=DATA, labeller=who)
    assert not (tmp_path / "run").exists()


def test_whoever_was_skipped_is_not_chosen_again(tmp_path):
    asked = []

    def answer(ids):
        asked.extend(ids)
        return Answers({i: i % 10 for i in ids[:2]}, tuple(ids[2:]))

    whole = dataclasses.replace(CONFIG.loop, k=len(DATA.ids) - 4, subset=None)
    config = dataclasses.replace(CONFIG, loop=whole)
    Experiment(config, tmp_path / "run", data=DATA, labeller=Somebody(answer)).run()
    assert sorted(asked) == sorted(DATA.ids)

"""Choosing by predictions alone: the same choices, and one clear line where they do not do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from loop_parts import Teacher, Trainer, make_points

import steepest
from steepest.errors import InputError, SteepestError
from steepest.loop.predictions import log_probabilities

POINTS, CLASSES = make_points()
BY_PREDICTIONS = {"entropy", "least-confidence", "margin", "random"}
BY_FEATURES = {"badge", "cluster-margin", "core-gcn", "core-set", "probcover", "typiclust"}
BY_FEATURES |= {
    "bait",
    "gradnorm-design",
    "gradnorm-herding",
    "max-herding",
    "steepest",
    "uncertain-gcn",
}


def make(**options):
    trainer = Trainer(POINTS)
    given = {
        "ids": range(60),
        "fit": trainer.fit,
        "predict": trainer.predict,
        "label": Teacher(CLASSES),
        "labels": {i: CLASSES[i] for i in range(12)},
        "progress": False,
    }
    return steepest.ActiveLoop(**{**given, **options}), trainer


@pytest.mark.parametrize("strategy", sorted(BY_PREDICTIONS))
def test_predictions_choose_what_the_model_itself_would(strategy):
    loop, trainer = make(strategy=strategy)
    picks = loop.ask(6)
    wanted = steepest.select(
        trainer.model.double(), POINTS, 6, strategy,
        labelled=range(12), seed=picks.seed, progress=False,
    )  # fmt: skip
    assert picks.ids == wanted.ids
    np.testing.assert_allclose(picks.scores, wanted.scores, atol=1e-5)
    assert picks.model == ""


@pytest.mark.parametrize("strategy", steepest.strategies.names())
def test_every_strategy_works_or_says_in_one_line_why_not(strategy):
    if strategy in BY_PREDICTIONS | BY_FEATURES:
        options = {"radius": 2.0} if strategy == "probcover" else None
        loop, _ = make(strategy=strategy, options=options, features=POINTS.numpy())
        assert len(set(loop.ask(4).ids)) == 4
        return
    with pytest.raises(SteepestError) as caught:
        make(strategy=strategy, features=POINTS)[0].ask(4)
    assert "\n" not in str(caught.value)


def test_gradients_are_refused_before_anything_is_labelled():
    with pytest.raises(
        InputError, match=r"gradients: use 'margin'.*torch model in place of predict"
    ):
        make(strategy="entropy-gradnorm")


def test_features_are_asked_for_by_name():
    with pytest.raises(InputError, match="give them by features="):
        make(strategy="core-set")


def test_features_by_id_choose_as_rows_do():
    rows, _ = make(strategy="core-set", features=POINTS)
    named, _ = make(strategy="core-set", features=dict(enumerate(POINTS)))
    others = {"elsewhere": POINTS[0], **dict(enumerate(POINTS))}
    more, _ = make(strategy="core-set", features=others)
    assert rows.ask(5).ids == named.ask(5).ids == more.ask(5).ids


def test_only_candidates_are_predicted_and_in_portions():
    seen = []
    trainer = Trainer(POINTS)
    loop, _ = make(
        fit=trainer.fit, predict=lambda ids: (seen.append(ids), trainer.predict(ids))[1],
        batch_size=7, subset=20,
    )  # fmt: skip
    loop.ask(3)
    assert [len(ids) for ids in seen] == [7, 7, 6]
    assert min(min(ids) for ids in seen) >= 12


def test_strategies_without_logits_do_not_predict():
    def predict(ids):
        raise AssertionError

    loop, _ = make(predict=predict, strategy="typiclust", features=POINTS, start="typiclust")
    loop.ask(3)
    fresh, _ = make(predict=predict, labels={}, start="random")
    assert len(fresh.ask(3)) == 3


def test_the_start_strategy_goes_on_until_two_classes_are_labelled():
    known = []

    def fit(ids, labels):
        known[:] = sorted(set(labels))

    def predict(ids):
        return np.full((len(ids), len(known)), 1 / len(known))

    answers = [0] * 60
    loop, _ = make(fit=fit, predict=predict, labels={}, label=lambda ids: [answers[i] for i in ids])
    rounds = loop.run(2, 4)
    answers[:] = [1] * 60
    assert [done.strategy for done in (*rounds, *loop.run(4, 4)[2:])] == [
        "random", "random", "random", "margin",
    ]  # fmt: skip


def test_who_asks_for_no_prediction_chooses_from_the_first_class_on():
    loop, _ = make(labels={0: 0}, strategy="typiclust", features=POINTS)
    assert loop.ask(3).strategy == "typiclust"


def test_what_fit_returns_does_not_matter():
    loop, trainer = make(fit=lambda ids, labels: (trainer_fit(ids, labels), 5)[1])
    trainer_fit = trainer.fit
    assert loop.run(2, 3)[-1].labelled == 15
    assert loop.model is None


def test_zero_and_sure_probabilities_have_finite_logarithms():
    logs = log_probabilities([[0.0, 1.0], [0.5, 0.5], [1e-320, 1.0]], [0, 1, 2])
    assert bool(logs.isfinite().all())
    torch.testing.assert_close(logs.softmax(1)[0], torch.tensor([0.0, 1.0]).double())
    whole = log_probabilities(torch.tensor([[0, 1]]), ["a"])
    assert whole.argmax(1).tolist() == [1]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([[0.5, 0.6]], "add up to 1; take the softmax"),
        ([[-0.5, 1.5]], "at least 0"),
        ([[np.nan, 1.0]], "NaN or infinity for sample 'a'"),
        ([[0.5, 0.5]] * 2, "2 rows for 1 samples"),
        ([[1.0]], "at least two classes"),
        ([0.5], "at least two classes"),
        ([["x", "y"]], "return probabilities"),
    ],
)
def test_what_is_no_probability_is_refused(told, message):
    with pytest.raises(InputError, match=message):
        log_probabilities(told, ["a"])


def test_the_number_of_classes_must_stay():
    widths = iter([2, 3])
    loop, _ = make(predict=lambda ids: np.full((len(ids), w := next(widths)), 1 / w), batch_size=24)
    with pytest.raises(InputError, match="3 classes after 2"):
        loop.ask(2)


def test_a_prediction_that_fails_is_not_blamed_on_the_pool():
    loop, _ = make(predict=lambda ids: 1 / 0)
    with pytest.raises(InputError, match=r"predict failed on \d+ samples .*ZeroDivisionError"):
        loop.ask(2)


def test_a_model_beside_predictions_is_refused():
    with pytest.raises(InputError, match="leave out model="):
        make(model=torch.nn.Linear(2, 3))

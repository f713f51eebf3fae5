"""The learner keeps scikit-learn's conventions, and asks torch modules inside estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, RunFolderError
from steepest.labelling.project import open_pool

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from steepest.sklearn import ActiveLearner

EXPECTED = {
    "check_supervised_y_no_nan": "NaN stands for a sample without a label",
    "check_supervised_y_2d": "a column of labels is taken without a warning",
}


def make_rows(count=90):
    classes = np.arange(count) % 3
    centres = np.array([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    rows = centres[classes] + np.random.default_rng(0).normal(size=(count, 2))
    return rows.astype(np.float32), classes


ROWS, CLASSES = make_rows()
FEW = np.where(np.arange(90) < 12, CLASSES, -1)


@pytest.mark.filterwarnings("ignore")
def test_the_conventions_of_estimators_are_kept():
    learner = ActiveLearner(LogisticRegression(), unlabelled=None)
    found = check_estimator(learner, expected_failed_checks=EXPECTED, on_skip=None)
    assert sum(check["status"] == "passed" for check in found) > 40
    assert {c["check_name"] for c in found if c["status"] == "xfail"} == set(EXPECTED)


def test_a_clone_has_the_parameters_and_has_learnt_nothing():
    learner = ActiveLearner(LogisticRegression(C=2.0), "entropy", subset=30).fit(ROWS, FEW)
    copy = clone(learner)
    assert copy.get_params()["estimator__C"] == 2.0
    assert (copy.strategy, copy.subset) == ("entropy", 30)
    with pytest.raises(NotFittedError):
        copy.query(1)
    copy.set_params(estimator__C=3.0, strategy="margin")
    assert copy.estimator.C == 3.0
    assert learner.estimator.C == 2.0


def test_query_and_teach_learn_the_classes():
    learner = ActiveLearner(RandomForestClassifier(10, random_state=0)).fit(ROWS, FEW)
    seen = set(range(12))
    for _ in range(3):
        rows = learner.query(5)
        assert not seen & set(rows.tolist())
        np.testing.assert_array_equal(learner.query(5), rows)
        seen |= set(rows.tolist())
        assert learner.teach(rows, CLASSES[rows]) is learner
    assert sum(label is not None for label in learner.y_) == 27
    assert learner.score(ROWS, CLASSES) > 0.9
    assert learner.predict_proba(ROWS).shape == (90, 3)
    assert learner.selection_.strategy == "margin"


def test_choices_are_those_of_the_scores():
    learner = ActiveLearner(LogisticRegression(), "margin").fit(ROWS, FEW)
    top = np.sort(learner.predict_proba(ROWS), axis=1)
    gap = np.where(FEW == -1, top[:, -1] - top[:, -2], np.inf)
    assert set(learner.query(5).tolist()) == set(np.argsort(gap)[:5].tolist())


@pytest.mark.parametrize("mark", [-1, None, np.nan, "?"])
def test_marks_of_samples_without_a_label(mark):
    names = np.array(["a", "b", "c"], dtype=object)
    y = names[CLASSES]
    y[12:] = mark
    chosen = ActiveLearner(LogisticRegression(), unlabelled=mark if mark == "?" else -1)
    learner = chosen.fit(ROWS, y.tolist())
    assert [label is None for label in learner.y_] == [False] * 12 + [True] * 78
    assert learner.predict(ROWS[:3]).tolist() == ["a", "b", "c"]
    texts = ActiveLearner(LogisticRegression(), unlabelled=str(mark)).fit(ROWS, y.astype(str))
    np.testing.assert_array_equal(texts.y_, learner.y_)


def test_minus_one_may_be_a_class():
    y = np.where(CLASSES == 0, -1.0, 1.0)
    y[12:] = np.nan
    learner = ActiveLearner(LogisticRegression(), unlabelled=None).fit(ROWS, y)
    assert learner.classes_.tolist() == [-1.0, 1.0]
    assert min(learner.query(3)) >= 12


def test_without_labels_it_begins_at_random_by_its_seed():
    nothing = np.full(90, -1)
    picks = [
        ActiveLearner(LogisticRegression(), random_state=seed).fit(ROWS, nothing).query(5).tolist()
        for seed in (0, 0, 1)
    ]
    assert picks[0] == picks[1] != picks[2]
    learner = ActiveLearner(LogisticRegression(), start="core-set").fit(ROWS, nothing)
    assert learner.query(4).size == 4
    assert learner.selection_.strategy == "core-set"
    with pytest.raises(NotFittedError):
        learner.predict(ROWS)


def test_one_class_alone_is_not_enough_for_a_strategy():
    y = np.where(CLASSES == 0, 0, -1)
    learner = ActiveLearner(RandomForestClassifier(5)).fit(ROWS, y)
    learner.query(3)
    assert learner.selection_.strategy == "random"


def test_a_classifier_that_cannot_learn_one_class_goes_on_when_there_are_two():
    learner = ActiveLearner(LogisticRegression(), start="random")
    learner.fit(ROWS, np.full(90, -1))
    learner.teach(learner.query(3), ["cat"] * 3)
    assert set(learner.predict(ROWS)) == {"cat"}
    learner.teach(learner.query(3), ["dog"] * 3)
    assert learner.selection_.strategy == "random"
    assert isinstance(learner.estimator_, LogisticRegression)
    assert learner.query(2).shape == (2,)
    assert learner.selection_.strategy == "margin"
    broken = np.full_like(ROWS, np.nan)
    with pytest.raises(ValueError, match="NaN"):
        ActiveLearner(LogisticRegression()).fit(broken, np.where(np.arange(90) < 3, 1, -1))


def test_labels_of_another_kind_are_refused_and_change_nothing():
    learner = ActiveLearner(LogisticRegression()).fit(ROWS, FEW)
    with pytest.raises(InputError, match="some labels are texts and others numbers"):
        learner.teach([20, 21], ["cat", None])
    assert learner.y_[20] is None
    assert not learner.skipped_[21]
    with pytest.raises(InputError, match="use one kind"):
        ActiveLearner(LogisticRegression()).fit(ROWS, ["cat", 1, *[None] * 88])


def test_skipped_rows_are_not_asked_for_again_and_labels_can_be_corrected():
    learner = ActiveLearner(LogisticRegression()).fit(ROWS, FEW)
    first, second = learner.query(2)
    learner.teach([first, second], [-1, 2])
    assert not {first, second} & set(learner.query(76).tolist())
    with pytest.raises(InputError, match="lower k"):
        learner.query(77)
    learner.teach([first], [1])
    assert (learner.y_[first], learner.skipped_[first]) == (1, False)


def test_a_classifier_is_asked_about_thousands_of_rows_in_one_call():
    rows, classes = make_rows(3000)
    learner = ActiveLearner(LogisticRegression())
    learner.fit(rows, np.where(np.arange(3000) < 12, classes, -1))
    sizes, real = [], learner.estimator_.predict_proba

    def noted(rows):
        sizes.append(len(rows))
        return real(rows)

    learner.estimator_.predict_proba = noted
    picked = learner.query(5)
    assert len(sizes) == 1
    assert learner.set_params(batch_size=100).query(5).tolist() == picked.tolist()
    assert max(sizes[1:]) == 100


@pytest.mark.parametrize("strategy", ["core-set", "typiclust", "badge"])
def test_rows_of_numbers_are_features(strategy):
    learner = ActiveLearner(RandomForestClassifier(5, random_state=0), strategy).fit(ROWS, FEW)
    assert len(set(learner.query(5).tolist())) == 5


def test_rows_of_texts_need_features_that_are_given():
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [f"word{c} word{i}" for i, c in enumerate(CLASSES)]
    counts = make_pipeline(CountVectorizer(), LogisticRegression())
    learner = ActiveLearner(counts, "core-set").fit(texts, FEW)
    with pytest.raises(InputError, match="features="):
        learner.query(3)
    assert learner.query(3, features=ROWS).size == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.fit(ROWS, CLASSES[:5]), "for 90 samples"),
        (lambda a: a.fit(ROWS, np.array(["a", "-1"] * 45)), "dtype object"),
        (lambda a: a.fit(ROWS, np.array(["a", np.nan] * 45)), "mark nan .* unlabelled='nan'"),
        (lambda a: a.fit(ROWS[:0], CLASSES[:0]), "empty"),
        (lambda a: a.teach([0, 0], [1, 1]), "distinct"),
        (lambda a: a.teach(np.ones(90, dtype=bool), np.ones(90)), "no mask"),
        (lambda a: a.teach([90], [1]), "0 to 89"),
        (lambda a: a.teach([1.5], [1]), "row numbers"),
        (lambda a: a.set_params(strategy="entropy-gradnorm").query(2), "gradients"),
        (lambda a: a.set_params(strategy="margn").fit(ROWS, FEW), "did you mean 'margin'"),
        (lambda a: a.set_params(estimator=LinearRegression()).fit(ROWS, FEW), "is a regressor"),
        (lambda a: a.set_params(estimator=Perceptron).fit(ROWS, FEW), "give a classifier"),
        (lambda a: a.fit(ROWS, [1, -1, *[None] * 88]), "if -1 is a class, say unlabelled=None"),
        (lambda a: a.score(ROWS, np.full(90, -1)), "no sample has a label"),
        (lambda a: a.set_params(estimator=Perceptron()).fit(ROWS, FEW).query(2), "Calibrated"),
    ],
)
def test_what_cannot_be_used_is_refused(change, message):
    learner = ActiveLearner(LogisticRegression()).fit(ROWS, FEW)
    with pytest.raises(InputError, match=message):
        change(learner)


def test_samples_without_a_label_do_not_count_in_the_score():
    learner = ActiveLearner(LogisticRegression()).fit(ROWS, FEW)
    weights = np.linspace(1, 2, 90)
    assert learner.score(ROWS, FEW) == learner.estimator_.score(ROWS[:12], CLASSES[:12])
    half = np.where(np.arange(90) < 45, CLASSES, -1)
    expected = learner.estimator_.score(ROWS[:45], CLASSES[:45], weights[:45])
    assert learner.score(ROWS, half, weights) == pytest.approx(expected)
    assert learner.score(ROWS, torch.as_tensor(half), weights) == pytest.approx(expected)


def test_nothing_taught_changes_nothing_and_nothing_learnt_says_so():
    learner = ActiveLearner(LogisticRegression()).fit(ROWS, np.full(90, -1))
    with pytest.raises(NotFittedError, match="nothing is labelled yet"):
        learner.predict(ROWS)
    before = learner.query(3)
    np.testing.assert_array_equal(learner.teach([], []).query(3), before)


class Blocks(nn.Sequential):
    """Layers that say which of them make maps."""

    block_layers = ("0",)


class Torch:
    """Makes skorch nets: on logits, or on probabilities as skorch's default wants them."""

    def __init__(self):
        self.skorch = pytest.importorskip("skorch")

    def net(self, *tail, criterion=nn.CrossEntropyLoss):
        torch.manual_seed(0)
        return self.skorch.NeuralNetClassifier(
            Blocks(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3), *tail),
            criterion=criterion, lr=0.5, max_epochs=20, train_split=None, verbose=0,
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
@pytest.mark.parametrize("strategy", [None, "entropy-gradnorm", "badge", "isal", "ll4al", "margin"])
def test_a_module_in_skorch_is_asked_itself(strategy):
    learner = ActiveLearner(Torch().net(), strategy).fit(ROWS, FEW)
    rows = learner.query(5)
    asked = strategy or "steepest"
    assert learner.selection_.strategy == asked
    wanted = steepest.select(
        learner.estimator_.module_, ROWS, 5, asked,
        labelled=range(12), seed=learner.selection_.seed, progress=False,
        support=steepest.strategies.Support(targets=dict(enumerate(CLASSES[:12].tolist()))),
    )  # fmt: skip
    assert tuple(rows.tolist()) == wanted.ids
    assert learner.teach(rows, CLASSES[rows]).score(ROWS, CLASSES) > 0.5


def test_a_class_not_seen_yet_moves_no_other_class():
    seen = np.where(CLASSES == 1, -1, FEW)
    learner = ActiveLearner(Torch().net(), "isal").fit(ROWS, seen)
    rows = learner.query(5)
    targets = {i: int(seen[i]) for i in range(90) if seen[i] != -1}
    wanted = steepest.select(
        learner.estimator_.module_, ROWS, 5, "isal", seed=learner.selection_.seed,
        support=steepest.strategies.Support(targets=targets), progress=False,
    )  # fmt: skip
    assert tuple(rows.tolist()) == wanted.ids


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
def test_a_net_in_a_search_is_asked_itself():
    search = GridSearchCV(Torch().net(), {"lr": [0.5]}, cv=2)
    learner = ActiveLearner(search).fit(ROWS, FEW)
    assert learner.query(2).size == 2
    assert learner.selection_.strategy == "steepest"


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
def test_outputs_that_are_probabilities_are_taken_as_such():
    net = Torch().net(nn.Softmax(dim=-1), criterion=nn.NLLLoss)
    learner = ActiveLearner(net, "entropy").fit(ROWS, FEW)
    p = learner.predict_proba(ROWS).astype(float)
    entropy = np.where(FEW == -1, -(p * np.log(p + 1e-12)).sum(1), -1)
    assert set(learner.query(5).tolist()) == set(np.argsort(entropy)[-5:].tolist())
    learner.set_params(strategy="entropy-gradnorm")
    assert learner.query(5).size == 5


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
def test_a_net_behind_a_scaler_sees_scaled_rows():
    pipeline = make_pipeline(StandardScaler(), Torch().net())
    learner = ActiveLearner(pipeline, "entropy-gradnorm").fit(ROWS, FEW)
    rows = learner.query(5)
    steps = learner.estimator_
    wanted = steepest.select(
        steps[-1].module_, steps[:-1].transform(ROWS), 5, "entropy-gradnorm", labelled=range(12),
        seed=learner.selection_.seed, progress=False,
    )  # fmt: skip
    assert tuple(rows.tolist()) == wanted.ids


def test_outputs_of_unknown_meaning_are_refused():
    learner = ActiveLearner(Torch().net()).fit(ROWS, FEW)
    learner.estimator_.criterion_ = nn.MultiMarginLoss()
    with pytest.raises(InputError, match="MultiMarginLoss"):
        learner.query(2)


def test_what_the_estimator_refuses_changes_nothing():
    rows = ROWS.copy()
    rows[20, 0] = np.nan
    learner = ActiveLearner(LogisticRegression(), strategy="random").fit(rows, FEW)
    before, picks = learner.y_.copy(), learner.query(3)
    with pytest.raises(ValueError, match="NaN"):
        learner.teach([20], [1])
    assert (learner.y_ == before).all()
    assert hasattr(learner, "estimator_")
    assert learner.teachings_ == 0
    np.testing.assert_array_equal(learner.query(3), picks)


def test_every_kind_of_random_state_is_a_seed():
    def picks(state):
        learner = ActiveLearner(LogisticRegression(), strategy="random", random_state=state)
        return learner.fit(ROWS, FEW).query(5).tolist()

    assert picks(np.int64(3)) == picks(3) != picks(4)
    assert picks(np.random.RandomState(3)) == picks(np.random.RandomState(3))
    assert picks(np.random.RandomState(3)) != picks(np.random.RandomState(4))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        picks("a")


def test_labels_in_a_folder_outlive_the_learner_and_others_may_add_some(tmp_path):
    learner = ActiveLearner(LogisticRegression(), "margin", folder=tmp_path / "own").fit(ROWS, FEW)
    picked = learner.query(3)
    assert learner.query(3).tolist() == picked.tolist()
    learner.teach(picked, [*CLASSES[picked[:2]], -1])
    with open_pool(tmp_path / "own") as pool:
        assert pool.counts()["labelled"] == 14
        assert pool.ids("skipped") == [picked[2]]
        asked = learner.query(2)
        assert [str(pool.state(row)) for row in asked] == ["queried"] * 2
        pool.label([asked[0]], [int(CLASSES[asked[0]])], cycle=0, who="ann")
        pool.query([80], cycle=0, who="a sheet")
    assert asked[0] not in learner.query(2)
    assert learner.y_[asked[0]] == CLASSES[asked[0]]
    assert 80 not in learner.query(73)
    again = ActiveLearner(LogisticRegression(), "margin", folder=tmp_path / "own")
    again.fit(ROWS, np.full(90, -1))
    assert again.y_.tolist() == learner.y_.tolist()
    assert again.skipped_.tolist() == learner.skipped_.tolist()
    np.testing.assert_array_equal(again.predict_proba(ROWS), learner.predict_proba(ROWS))


def test_taught_labels_of_a_folder_are_corrected_or_taken_back(tmp_path):
    learner = ActiveLearner(LogisticRegression(), folder=tmp_path).fit(ROWS, FEW)
    learner.teach([0, 1, 2, 40], [2, -1, 2, -1])
    learner.teach([40], [1])
    with open_pool(tmp_path) as pool:
        assert [pool.label_of(row) for row in (0, 2, 40)] == [2, 2, 1]
        assert pool.ids("skipped") == [1]
        assert [event.label for event in pool.history(0)] == [0, 2]
    texts = np.array(["a", "b", "?"] * 30, dtype=object)
    named = ActiveLearner(LogisticRegression(), unlabelled="?", folder=tmp_path / "texts")
    assert set(named.fit(ROWS, texts).classes_) == {"a", "b"}
    with pytest.raises(RunFolderError, match="other samples"):
        ActiveLearner(LogisticRegression(), folder=tmp_path).fit(ROWS[:50], FEW[:50])
    with pytest.raises(RunFolderError, match="are not what they were"):
        ActiveLearner(LogisticRegression(), folder=tmp_path).fit(ROWS[::-1].copy(), FEW)
    floats = np.where(FEW < 0, np.nan, FEW)
    with_gaps = ActiveLearner(LogisticRegression(), folder=tmp_path / "gaps").fit(ROWS, floats)
    assert with_gaps.y_[:3].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="is no class"):
        ActiveLearner(LogisticRegression(), folder=tmp_path / "half").fit(ROWS, floats / 2)


def test_what_an_estimator_refuses_is_not_written_down(tmp_path):
    class Refusing(LogisticRegression):
        def fit(self, rows, labels, **more):
            if len(labels) > 12:
                raise ValueError("too many")
            return super().fit(rows, labels, **more)

    learner = ActiveLearner(Refusing(), folder=tmp_path).fit(ROWS, FEW)
    with pytest.raises(ValueError, match="too many"):
        learner.teach([50], [1])
    with open_pool(tmp_path) as pool:
        assert pool.counts()["labelled"] == 12

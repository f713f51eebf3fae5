"""Active learning in the manner of scikit-learn: fit, query, teach, predict."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId, derive
from steepest.errors import InputError
from steepest.loop.arrays import as_rows, check_kinds, check_rows, numbers_of, read_labels
from steepest.loop.chooser import Chooser, as_features, with_targets
from steepest.loop.estimators import check_classifier, fit_clone, torch_inside
from steepest.loop.shared_labels import SharedLabels
from steepest.pool import Label
from steepest.selecting.options import (
    DEFAULT_STRATEGY,
    BatchSize,
    SelectionOptions,
    as_strategy,
    check_k,
)
from steepest.selecting.samples import as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Needs, Strategy
from steepest.strategies.support import NO_SUPPORT

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import _safe_indexing as rows_of
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:  # pragma: no cover - depends on what is installed
    raise ModuleNotFoundError(
        "steepest.sklearn needs scikit-learn: run pip install 'steepest[sklearn]'"
    ) from error

__all__ = ["ActiveLearner"]

_ASKED = 8192
"""Rows in one call of ``predict_proba``: they are in memory already, and a forest takes as long to
begin as for a thousand of them."""


class ActiveLearner(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that knows which samples it wants labelled.

    ``fit`` takes the whole pool, labelled or not; ``query`` names rows to label; ``teach`` takes
    their labels and fits again, from the beginning.

    Any classifier with ``predict_proba`` can be asked by strategies that need predictions alone,
    or features (the rows of X, if they are numbers). An estimator with a torch module inside, such
    as skorch's ``NeuralNetClassifier``, also as the last step of a pipeline, by all.

    Args:
        estimator: A classifier; it is cloned.
        strategy: A name or a strategy; None takes ``"steepest"`` for torch modules and ``"margin"``
            otherwise.
        options: Options for a strategy given by name.
        start: The strategy while fewer than two classes are known.
        unlabelled: The value in y for a sample without a label; None and NaN always do. Set it
            to None if −1 is one of your classes.
        subset: Score only a random subset of this size, or of k if that is more.
        batch_size: The most samples passed to one call of ``predict_proba``.
        folder: A labelling project that keeps the labels, made if it is not there. Labels that it
            has stay, and those that others give in the meantime are learnt from, too. They are
            whole numbers or texts. None is memory alone.
        random_state: A whole number that decides every draw; a generator or None draws one
            when the learner is fitted, as elsewhere in scikit-learn.

    Attributes:
        estimator_: The fitted estimator; not set until a sample is labelled. One that
            cannot learn a single class is stood in for by a ``DummyClassifier`` so long.
        classes_: The classes that it knows.
        X_: The pool.
        y_: Labels [N]; None where unlabelled.
        skipped_: The rows that cannot be labelled [N].
        teachings_: How often ``teach`` was called since ``fit``.
        selection_: The result of the last ``query``, with scores and regime.
    """

    def __init__(
        self,
        estimator: Any,  # noqa: ANN401
        strategy: str | Strategy | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        start: str | Strategy = "random",
        unlabelled: Any = -1,  # noqa: ANN401
        subset: int | None = None,
        batch_size: BatchSize = "auto",
        folder: Path | str | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.options = options
        self.start = start
        self.unlabelled = unlabelled
        self.subset = subset
        self.batch_size = batch_size
        self.folder = folder
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401, N803 - as scikit-learn names it
        """Take the pool, and fit to its labelled rows.

        Args:
            X: All samples [N, ...].
            y: Labels [N], with the mark of a sample without one.

        Raises:
            InputError: If the number of labels differs from that of samples, or the estimator or
                strategy is invalid.
            RunFolderError: If the folder belongs to other samples.
        """
        self._check()
        self.X_, count = as_rows(X)
        self.y_ = check_kinds(read_labels(y, count, self.unlabelled))
        self.skipped_ = np.zeros(len(self.y_), dtype=bool)
        self.shared_ = None
        if self.folder is not None:
            self.shared_ = SharedLabels(Path(self.folder), self.X_, count)
            self.shared_.give(self.y_)
            self.y_, self.skipped_ = self.shared_.read()
        self.teachings_ = 0
        self.seed_ = _seed_of(self.random_state)
        self._take(self._fitted(self.y_))
        return self

    def query(self, k: int = 1, *, features: Any = None) -> npt.NDArray[np.intp]:  # noqa: ANN401
        """Return the k rows of X to label next, the most wanted first.

        The same until the next ``teach``, or until others label rows in the same folder.

        Args:
            k: How many.
            features: Features of all samples [N, D], for strategies that choose by them; by
                default the torch module's, or the rows of X.

        Raises:
            InputError: If k exceeds the number of unlabelled rows.
        """
        check_is_fitted(self, "y_")
        self._catch_up()
        taken = np.flatnonzero(self._labelled | self.skipped_).tolist()
        if self.shared_ is not None:
            taken += self.shared_.taken_elsewhere()
        check_k(k, len(self.y_) - len(taken), None)
        self.selection_ = self._select(k, taken, features)
        if self.shared_ is not None:
            picks = self.selection_
            self.shared_.ask([int(i) for i in picks.ids], self.teachings_, picks.strategy)
        return np.asarray(self.selection_.ids, dtype=np.intp)

    def teach(self, indices: Any, labels: Any) -> Self:  # noqa: ANN401
        """Add the labels of some rows, and refit to all labels.

        Args:
            indices: Rows of X [K], labelled before or not.
            labels: Their labels [K]; with the mark of a sample without one, the row is not
                asked for again.

        Raises:
            InputError: If the number of labels differs from that of rows, or a row does not exist.
        """
        check_is_fitted(self, "y_")
        rows = check_rows(indices, len(self.y_))
        given = read_labels(labels, len(rows), self.unlabelled)
        if len(rows) == 0:
            return self
        refused = np.array([label is None for label in given], dtype=bool)
        self._catch_up()
        changed, skipped = self.y_.copy(), self.skipped_.copy()
        changed[rows] = given
        skipped[rows] = refused
        # If the estimator refuses, nothing changes: it may raise anything here.
        fitted = self._fitted(check_kinds(changed))
        if self.shared_ is not None:
            self.shared_.teach(rows.tolist(), given, self.teachings_)
        self.y_, self.skipped_ = changed, skipped
        self.teachings_ += 1
        self._take(fitted)
        return self

    def predict(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return the likeliest class of each sample [N]."""
        return self._learnt().predict(X)

    def predict_proba(self, X: Any) -> Any:  # noqa: ANN401, N803
        """Return the probability of each class [N, C]."""
        return self._learnt().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: ANN401, N803
        """Return the accuracy on the samples that have a label.

        Args:
            X: Samples [N, ...].
            y: Labels [N]; samples with the mark of one without a label are left out.
            sample_weight: Weights of the samples [N]; equal if None.

        Raises:
            InputError: If no sample has a label.
        """
        samples, count = as_rows(X)
        labels = read_labels(y, count, self.unlabelled)
        rows = np.flatnonzero([label is not None for label in labels])
        if len(rows) == 0:
            raise InputError("no sample has a label to score by: give labels of some")
        known = np.array(labels[rows].tolist())
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(super().score(rows_of(samples, rows), known, weights))

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        from sklearn.utils import get_tags

        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags = replace(inner.classifier_tags, multi_label=False)
        return tags

    def _check(self) -> None:
        """Refuse an estimator that cannot be fitted or cannot be used to choose."""
        check_classifier(self.estimator)
        as_strategy(self.start, None)
        if self.strategy is not None:
            as_strategy(self.strategy, self.options)

    def _learnt(self) -> Any:  # noqa: ANN401
        """Return the fitted estimator."""
        check_is_fitted(self, "y_")
        if not hasattr(self, "estimator_"):
            raise NotFittedError("nothing is labelled yet, so nothing was learnt: teach first")
        return self.estimator_

    def _catch_up(self) -> None:
        """Learn from labels that others have given since."""
        if self.shared_ is None:
            return
        labels, skipped = self.shared_.read()
        if labels.tolist() != self.y_.tolist():
            fitted = self._fitted(check_kinds(labels))
            self.y_ = labels
            self._take(fitted)
        self.skipped_ = skipped

    @property
    def _labelled(self) -> npt.NDArray[np.bool_]:
        return np.array([label is not None for label in self.y_], dtype=bool)

    def _fitted(self, y: npt.NDArray[np.object_]) -> tuple[Any, Any] | None:
        """Return a clone that is fitted to the labelled rows, and its classes."""
        rows = np.flatnonzero([label is not None for label in y])
        if len(rows) == 0:
            return None
        known = np.array(y[rows].tolist())
        fitted = fit_clone(self.estimator, rows_of(self.X_, rows), known)
        return fitted, getattr(fitted, "classes_", np.unique(known))

    def _take(self, fitted: tuple[Any, Any] | None) -> None:
        """Continue with another estimator, or with none."""
        self.__dict__.pop("estimator_", None)
        if fitted is not None:
            self.estimator_, self.classes_ = fitted
            if hasattr(self.estimator_, "n_features_in_"):
                self.n_features_in_ = self.estimator_.n_features_in_

    def _select(self, k: int, taken: list[int], features: Any) -> Selection:  # noqa: ANN401
        ready = hasattr(self, "estimator_") and len(self.classes_) > 1
        inside = torch_inside(self.estimator_, self.X_) if ready else None
        usual = "margin" if inside is None else DEFAULT_STRATEGY
        strategy = as_strategy(self.start, None)
        if ready:
            strategy = as_strategy(usual if self.strategy is None else self.strategy, self.options)
        if features is None and inside is None and Needs.FEATURES in strategy.needs:
            features = numbers_of(self.X_)
        ids = range(len(self.y_))
        asks = inside is None
        chooser = Chooser(
            samples=None if inside is None else as_samples(inside[1]),
            ids=ids,
            features=as_features(features, ids),
            how=SelectionOptions(
                subset=self.subset,
                batch_size=_ASKED if asks and self.batch_size == "auto" else self.batch_size,
                progress=False,
            ),
        )
        seed = derive(self.seed_, "query", self.teachings_)
        if inside is None:
            return chooser.by_predictions(
                self._predict, k, strategy, labelled=taken, seed=seed, support=NO_SUPPORT
            )
        rows = np.flatnonzero(self._labelled)
        # A net's outputs are the labels themselves, whether or not all of them were seen yet.
        targets: dict[SampleId, Label] = {
            row: int(y) if isinstance(y := self.y_[row], numbers.Integral) else y
            for row in rows.tolist()
        }
        support = with_targets(NO_SUPPORT, strategy, targets, None)
        return chooser.by_model(inside[0], k, strategy, labelled=taken, seed=seed, support=support)

    def _predict(self, ids: list[Any]) -> Any:  # noqa: ANN401
        if not hasattr(self, "estimator_"):
            raise InputError("nothing is labelled yet, so nothing is predicted: start by 'random'")
        if not hasattr(self.estimator_, "predict_proba"):
            raise InputError(
                f"{type(self.estimator_).__name__} has no predict_proba: wrap it in a "
                "CalibratedClassifierCV"
            )
        return self.estimator_.predict_proba(rows_of(self.X_, ids))


def _seed_of(state: int | np.random.RandomState | None) -> int:
    """Return a whole number for every way in which scikit-learn takes a random state."""
    if isinstance(state, numbers.Integral):
        return int(state)
    return int(check_random_state(state).randint(np.iinfo(np.int32).max))

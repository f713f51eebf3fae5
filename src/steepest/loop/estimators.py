"""Requirements on scikit-learn estimators, and fitting them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError


def check_classifier(estimator: Any) -> None:  # noqa: ANN401
    """Refuse what does not learn classes.

    Raises:
        InputError: Saying what it is.
    """
    from sklearn.base import is_regressor

    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InputError(f"the estimator is {estimator!r}: give a classifier, as SVC()")
    if is_regressor(estimator):
        raise InputError(
            f"{type(estimator).__name__} is a regressor, and samples are chosen by the "
            "probabilities of classes: give a classifier"
        )


def fit_clone(estimator: Any, rows: Any, known: npt.NDArray[Any]) -> Any:  # noqa: ANN401
    """Fit a clone; the first labels may well be of one class, which many cannot learn.

    Args:
        estimator: Left as it is.
        rows: Labelled samples [N, ...].
        known: Their labels [N].

    Returns:
        A ``DummyClassifier`` in place of a classifier that cannot learn a single class.
    """
    from sklearn.base import clone

    try:
        return clone(estimator).fit(rows, known)
    except ValueError as error:
        if len(np.unique(known)) > 1 or "class" not in str(error):
            raise
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(rows, known)

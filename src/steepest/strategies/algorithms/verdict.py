"""A verdict on some picks in one sentence: are they spread over the classes?

The picks with the highest scores may all be of one kind. What the model predicts of them shows it,
before anybody has labelled one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.core.wording import counted
from steepest.errors import InputError

_ENOUGH = 0.2
"""A share of the picks below which a class is no matter, however rare it is in the pool."""

_FEWEST = 3
"""So many picks make a crowd."""

_TIMES = 2.0
_MORE = 0.25
"""So many times its share of the pool, or so much more than that, is one class too often."""

_CHANCE = 0.01
"""How probable it may be that random picks have as many of any class."""

_COVERING = "'badge' or 'cluster-margin'"


@dataclass(frozen=True)
class ClassCount:
    """Share of one predicted class among the picks.

    Attributes:
        label: The number of the class.
        picks: The number of picks.
        expected: The number of picks if they were drawn from all candidates at random.
        name: The name of the class; empty if it is not known.
    """

    label: int
    picks: int
    expected: float
    name: str = ""

    def __str__(self) -> str:
        return repr(self.name) if self.name else f"class {self.label}"


@dataclass(frozen=True)
class Verdict:
    """A verdict on some picks.

    Attributes:
        sentence: The verdict.
        spread: How often each class is predicted that any of the picks is predicted as, the most
            frequent one first; empty if the model does not tell one class of several.
        lopsided: Whether one class is there far more often than in the pool.
    """

    sentence: str
    spread: tuple[ClassCount, ...] = ()
    lopsided: bool = False

    def __str__(self) -> str:
        return self.sentence


def judge(
    predicted: npt.NDArray[np.intp] | None,
    positions: npt.NDArray[np.intp],
    classes: int,
    *,
    names: Sequence[str] = (),
    by_score: bool = True,
    said: str = "",
) -> Verdict | None:
    """Look at the classes that picks are predicted as.

    Args:
        predicted: The class that each candidate is predicted as [N]; None if the model was not
            asked, or does not tell one class of several.
        positions: Positions among the candidates [k].
        classes: C.
        names: The classes' names [C]; empty if they are not known.
        by_score: Whether each pick was chosen for itself, whatever the others are.
        said: The strategy's comment on its choice, in a sentence; it comes first.

    Returns:
        None if there is nothing to say.

    Raises:
        InputError: If there are names for another number of classes.
    """
    if predicted is None:
        return Verdict(said) if said else None
    check_names(names, classes)
    spread = _count(predicted, positions, classes, names)
    lopsided = _is_lopsided(spread[0], len(positions), len(predicted), classes)
    told = _describe(spread[0], len(positions), lopsided=lopsided, by_score=by_score)
    return Verdict(" ".join(filter(None, [said, told])), spread, lopsided)


def check_names(names: Sequence[str], classes: int) -> None:
    """Refuse names of another number of classes.

    Raises:
        InputError: Saying how many there are.
    """
    if len(names) not in (0, classes):
        raise InputError(
            f"{counted(len(names), 'class name')} for a model with {classes} outputs: name each "
            "class once, in the model's order"
        )


def _count(
    predicted: npt.NDArray[np.intp],
    positions: npt.NDArray[np.intp],
    classes: int,
    names: Sequence[str],
) -> tuple[ClassCount, ...]:
    everyone = np.bincount(predicted, minlength=classes)
    picked = np.bincount(predicted[positions], minlength=classes)
    expected = everyone * (len(positions) / len(predicted))
    order = np.argsort(-picked, kind="stable")
    return tuple(
        ClassCount(int(c), int(picked[c]), float(expected[c]), names[c] if names else "")
        for c in order[: np.count_nonzero(picked)]
    )


def _is_lopsided(most: ClassCount, k: int, candidates: int, classes: int) -> bool:
    found, usual = most.picks / k, most.expected / k
    much = most.picks >= _FEWEST and found >= _ENOUGH
    much = much and (found >= _TIMES * usual or found >= usual + _MORE)
    members = round(usual * candidates)
    return much and classes * at_least(most.picks, k, members, candidates) < _CHANCE


def at_least(count: int, drawn: int, members: int, total: int) -> float:
    """Return how probable it is to draw so many members or more, without putting any back.

    Args:
        count: Members among those that are drawn.
        drawn: How many are drawn.
        members: Members among all.
        total: All.
    """
    least = max(count, drawn - (total - members))
    logs = [
        _log_choose(members, n)
        + _log_choose(total - members, drawn - n)
        - _log_choose(total, drawn)
        for n in range(least, min(drawn, members) + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _describe(most: ClassCount, k: int, *, lopsided: bool, by_score: bool) -> str:
    if k == 1:
        return f"The pick is predicted as {most}."
    are = "is" if most.picks == 1 else "are"
    found = f"{most.picks} of {counted(k, 'pick')} {are} predicted as {most}"
    chance = f"{_rounded(most.expected)} expected at random"
    if not lopsided:
        return f"{found}, the most of any class ({chance})."
    remedy = f": try a strategy with coverage such as {_COVERING}" if by_score else ""
    return f"{found} ({chance}){remedy}."


def _rounded(expected: float) -> str:
    if expected >= 10:
        return f"{expected:.0f}"
    return f"{expected:.1f}".removesuffix(".0") if expected >= 0.05 else "fewer than 0.1"

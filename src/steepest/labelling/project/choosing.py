"""What to label next: by a strategy where there is a model, by their looks where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from steepest.core.seeds import random_subset
from steepest.errors import InputError
from steepest.labelling.project.cheap_features import SIDE, Features, describe
from steepest.labelling.project.learning import Learnt, see_features
from steepest.labelling.project.picking import (
    VALIDATION,
    Candidate,
    interleave,
    list_candidates,
    split_sizes,
)
from steepest.labelling.project.predictions import pack
from steepest.labelling.project.reserve import size_reserve
from steepest.labelling.project.round import Round
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.spread import choose_spread
from steepest.labelling.project.squares import most_samples
from steepest.selecting.looking import as_strategy
from steepest.selecting.options import SelectionOptions
from steepest.selecting.regime import describe_inversion
from steepest.selecting.samples import as_samples
from steepest.selecting.select import choose_from
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy
from steepest.training.augment import normalise

SPREAD = "spread"
"""What is said to have picked samples before there is a model."""

_LEAST_FACTOR = 4
"""As many candidates are scored for each pick, however long the reserve is."""

Entry = tuple[int, str]
"""An image's number and its id."""


def pick_by_model(this: Round, learnt: Learnt) -> tuple[list[Candidate], str | None]:
    """Choose by the strategy, and draw samples to test on.

    Returns:
        Both, mixed, and what is to be said about the strategy's regime.
    """
    settings = this.settings
    k, pool, drawn = _list_both(this)
    most = min(count_scored(settings, k), most_samples(settings.side))
    pool = _draw(this, pool, most, "candidates")
    chosen, remark = _choose(this, learnt, pool, k)
    places, squares = this.read([sample for _, sample in drawn])
    tests = [
        Candidate(drawn[place][0], None, VALIDATION, pack(values))
        for place, values in zip(places, learnt.probabilities(squares), strict=True)
    ]
    return interleave(chosen, tests, settings.validation_share), remark


def split_picks(settings: Settings, reserve: int) -> tuple[int, int]:
    """Return how many to choose and how many to draw, for a batch and its reserve.

    A strategy that refuses so many at once has no more than a batch in reserve.
    """
    k, draws = split_sizes(settings.batch_size + reserve, settings.validation_share)
    try:
        for name in filter(None, (settings.strategy, settings.weak_strategy)):
            _strategy_of(settings, name).check_k(k)
    except InputError:
        return _split_usual(settings)
    return k, draws


def _split_usual(settings: Settings) -> tuple[int, int]:
    return split_sizes(2 * settings.batch_size, settings.validation_share)


def count_scored(settings: Settings, k: int) -> int:
    """Return how many candidates are scored to choose k of them.

    A long reserve has its weakest picks last, and is there to save time: it is chosen from fewer.
    """
    usual, _ = _split_usual(settings)
    factor = settings.subset_factor
    return max(factor * min(usual, k), min(factor, _LEAST_FACTOR) * k)


def pick_spread(this: Round) -> list[Candidate]:
    """Choose typical samples that differ from each other, and draw samples to test on."""
    settings = this.settings
    k, pool, drawn = _list_both(this)
    pool = _draw(this, pool, max(k, settings.cold_start_images), "cold start")
    places, features = _look(this, [sample for _, sample in pool])
    rows = choose_spread(features, k, this.seed)
    chosen = [Candidate(pool[places[row]][0], None, SPREAD) for row in rows]
    tests = [Candidate(number, None, VALIDATION) for number, _ in drawn]
    return interleave(chosen, tests, settings.validation_share)


def _look(this: Round, ids: Sequence[str]) -> tuple[list[int], Features]:
    """Return the places that could be read, and what they look like [R, D]."""
    settings = this.settings
    plain = settings.weights is None
    places, squares = this.read(ids, SIDE if plain else None)
    if not places:
        return [], np.zeros((0, 1))
    if plain:
        return places, describe(squares.numpy())
    return places, see_features(squares, settings, len(this.classes.names))


def _list_both(this: Round) -> tuple[int, list[Entry], list[Entry]]:
    """Return how many to choose, what from, and what is drawn; all as of one moment."""
    settings = this.settings
    with this.store.reading() as connection:
        reserve = size_reserve(connection, settings.batch_size)
        k, draws = split_picks(settings, reserve)
        pool = list_candidates(connection, held_out=False)
        return k, pool, list_candidates(connection, held_out=True, limit=draws)


def _draw(this: Round, pool: list[Entry], most: int, purpose: str) -> list[Entry]:
    kept = random_subset([sample for _, sample in pool], most, this.seed, purpose)
    return [pool[place] for place in kept]


def _choose(
    this: Round, learnt: Learnt, pool: Sequence[Entry], k: int
) -> tuple[list[Candidate], str | None]:
    places, squares = this.read([sample for _, sample in pool])
    if not places:
        return [], None
    settings = this.settings
    ids = [pool[place][1] for place in places]
    pixels = _Inputs(ids, squares, learnt)
    picked, remark = _select(this, learnt, pixels, k, settings.strategy)
    if remark is not None and settings.weak_strategy is not None:
        picked, _ = _select(this, learnt, pixels, k, settings.weak_strategy)
    row_of = {sample: row for row, sample in enumerate(ids)}
    rows = [row_of[str(sample)] for sample in picked.ids]
    chosen = [
        Candidate(pool[places[row]][0], score, picked.strategy, pack(values))
        for row, score, values in zip(
            rows, picked.scores, learnt.probabilities(squares[rows]), strict=True
        )
    ]
    return chosen, remark


def _select(
    this: Round, learnt: Learnt, pixels: _Inputs, k: int, strategy: str
) -> tuple[Selection, str | None]:
    """Return the choice, and what to say if the most uncertain samples come last in it."""
    chosen = _strategy_of(this.settings, strategy)
    how = SelectionOptions(seed=this.seed, task=learnt.task, progress=this.progress)
    # Not ``select``: what that would warn of is shown on the page.
    outcome = choose_from(learnt.model, as_samples(pixels), min(k, len(pixels)), chosen, how)
    picked = outcome.selection
    return picked, describe_inversion(picked.regime, chosen)


def _strategy_of(settings: Settings, name: str) -> Strategy:
    options = settings.strategy_options if name == settings.strategy else None
    return as_strategy(name, options)


class _Inputs(Dataset[Tensor]):
    """Squares as a pool to choose from, normalised one at a time."""

    def __init__(self, ids: Sequence[str], squares: Tensor, learnt: Learnt) -> None:
        self.ids = list(ids)
        self._squares = squares
        self._learnt = learnt

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Tensor:
        one = self._squares[index : index + 1]
        return normalise(one, self._learnt.mean, self._learnt.std)[0]

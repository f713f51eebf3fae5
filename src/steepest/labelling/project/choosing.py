"""Chooses the images to label next: by a strategy with a model, by appearance without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from steepest.core.seeds import random_subset
from steepest.errors import InputError
from steepest.labelling.project.batches import (
    VALIDATION,
    Candidate,
    interleave,
    list_candidates,
    size_reserve,
    split_sizes,
)
from steepest.labelling.project.cold_start import SIDE, Features, choose_spread, describe
from steepest.labelling.project.copies import LEARNABLE
from steepest.labelling.project.inputs import most_samples
from steepest.labelling.project.learning import Learnt, see_features
from steepest.labelling.project.records import pack
from steepest.labelling.project.round import Round
from steepest.labelling.project.settings import Settings
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import SelectionOptions, as_strategy
from steepest.selecting.regime import describe_inversion
from steepest.selecting.samples import as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy
from steepest.training.probes import Probe

SPREAD = "spread"
"""The recorded source of picks before there is a model."""

COLD_START = "max-herding"
"""The strategy that picks by features before there is a model."""

_ANY_CLASSES = 2
_MOST_PROBED = 20_000
"""Candidates that are scored at most: more would have people wait."""

_LEAST_FACTOR = 4
"""As many candidates are scored for each pick, however long the reserve is."""

Entry = tuple[int, str]
"""An image's number and its id."""


@dataclass(frozen=True)
class Remarks:
    """Remarks on a choice.

    Attributes:
        regime: Why the strategy of weak models chose; None if it did not.
        verdict: The verdict on the picks in a sentence, if there is one.
    """

    regime: str | None = None
    verdict: str | None = None


def pick_by_model(this: Round, learnt: Learnt) -> tuple[list[Candidate], Remarks]:
    """Choose by the strategy, and draw samples to test on.

    Returns:
        Both, mixed, and remarks on the choice.
    """
    settings = this.settings
    listed = _list_samples(this)
    drawn = listed.drawn
    narrow = _list_probed if this.probes else _draw_scored
    pool = narrow(this, listed.pool, listed.k)
    chosen, remarks = _choose(this, learnt, pool, listed)
    places, inputs = this.read([sample for _, sample in drawn])
    tests = [
        Candidate(drawn[place][0], None, VALIDATION, pack(values))
        for place, values in zip(places, learnt.probabilities(inputs), strict=True)
    ]
    return interleave(chosen, tests, settings.validation_share), remarks


def split_picks(settings: Settings, answers: int, reserve: int) -> tuple[int, int]:
    """Return how many to choose and how many to draw, for a batch and its reserve.

    A strategy that refuses so many at once has no more than a batch in reserve.

    Args:
        settings: What holds now.
        answers: The size of the batch.
        reserve: The number of picks besides.
    """
    k, draws = split_sizes(answers + reserve, settings.validation_share)
    try:
        for name in filter(None, (settings.picks_by, settings.weak_strategy)):
            _strategy_of(settings, name).check_k(k)
    except InputError:
        return _split_usual(settings, answers)
    return k, draws


def _split_usual(settings: Settings, answers: int) -> tuple[int, int]:
    return split_sizes(2 * answers, settings.validation_share)


def count_scored(settings: Settings, answers: int, k: int) -> int:
    """Return how many candidates are scored to choose k of them.

    A long reserve has its weakest picks last, and is there to save time: it is chosen from fewer.

    Args:
        settings: What holds now.
        answers: The size of a batch.
        k: How many are chosen, with those in reserve.
    """
    usual, _ = _split_usual(settings, answers)
    factor = settings.subset_factor
    return max(factor * min(usual, k), min(factor, _LEAST_FACTOR) * k)


def pick_spread(this: Round) -> list[Candidate]:
    """Choose typical samples that differ from each other, and draw samples to test on."""
    settings = this.settings
    listed = _list_samples(this)
    if this.probes:
        chosen, _ = _choose(this, None, _list_probed(this, listed.pool, listed.k), listed)
    else:
        most = max(listed.k, settings.cold_start_images)
        pool = _draw(this, listed.pool, most, "cold start")
        places, features = _look(this, [sample for _, sample in pool])
        rows = choose_spread(features, listed.k, this.seed)
        chosen = [Candidate(pool[places[row]][0], None, SPREAD) for row in rows]
    tests = [Candidate(number, None, VALIDATION) for number, _ in listed.drawn]
    return interleave(chosen, tests, settings.validation_share)


def _look(this: Round, ids: Sequence[str]) -> tuple[list[int], Features]:
    """Return the positions that could be read, and their features [R, D]."""
    settings = this.settings
    plain = settings.weights is None
    places, squares = this.read(ids, SIDE if plain else None)
    if not places:
        return [], np.zeros((0, 1))
    if plain:
        return places, describe(squares.numpy())
    return places, see_features(squares, settings, len(this.classes.names))


@dataclass(frozen=True)
class _Listed:
    """Samples of a project as of one moment.

    Attributes:
        k: How many to choose.
        pool: What from.
        drawn: Random draws that models are tested on.
        labelled: Samples that models learn from.
    """

    k: int
    pool: list[Entry]
    drawn: list[Entry]
    labelled: list[str]


def _list_samples(this: Round) -> _Listed:
    settings = this.settings
    with this.store.reading() as connection:
        reserve = size_reserve(connection, this.answers)
        k, draws = split_picks(settings, this.answers, reserve)
        pool = list_candidates(connection, held_out=False)
        drawn = list_candidates(connection, held_out=True, limit=draws)
        rows = connection.execute(
            f"SELECT id FROM ({LEARNABLE}) WHERE id IS NOT NULL AND held_out = 0 ORDER BY id"  # noqa: S608
        ).fetchall()
    return _Listed(k, pool, drawn, [row["id"] for row in rows])


def _draw_scored(this: Round, pool: list[Entry], k: int) -> list[Entry]:
    """Return the candidates for a net to score: a random part of the pool."""
    side = this.settings.side
    most = min(count_scored(this.settings, this.answers, k), most_samples(side))
    return _draw(this, pool, most, "candidates")


def _list_probed(this: Round, pool: list[Entry], k: int) -> list[Entry]:
    """Return the candidates for a probe to score.

    These are the images whose features are there, and the next ones of the pool's random order
    where those are few: the rest is computed while people label.
    """
    missing = set(this.features.missing([sample for _, sample in pool]))
    there = [entry for entry in pool if entry[1] not in missing]
    least = max(k, this.settings.cold_start_images)
    wanted = [entry for entry in pool if entry[1] in missing][: max(0, least - len(there))]
    return (there + wanted)[: max(_MOST_PROBED, least)]


def _draw(this: Round, pool: list[Entry], most: int, purpose: str) -> list[Entry]:
    kept = random_subset([sample for _, sample in pool], most, this.seed, purpose)
    return [pool[place] for place in kept]


def _choose(
    this: Round, learnt: Learnt | None, pool: Sequence[Entry], listed: _Listed
) -> tuple[list[Candidate], Remarks]:
    """Choose among candidates.

    Args:
        this: The round.
        learnt: The model; None before there is one, for features alone.
        pool: The candidates.
        listed: Says how many, and what is labelled: near that, nothing need be picked.
    """
    places, inputs = this.read([sample for _, sample in pool])
    if not places:
        return [], Remarks()
    settings = this.settings
    ids = [pool[place][1] for place in places]
    every = _Inputs(ids, inputs, learnt)
    if this.probes:
        there, known = this.read(listed.labelled)
        labelled = [listed.labelled[place] for place in there]
        every = _Inputs([*ids, *labelled], torch.cat([inputs, known]), learnt)
    k, strategy = listed.k, settings.picks_by if learnt is not None else COLD_START
    picked = _select(this, learnt, every, len(ids), k, strategy)
    remarks = _remark(this, picked, strategy)
    if remarks.regime is not None and settings.weak_strategy is not None:
        picked = _select(this, learnt, every, len(ids), k, settings.weak_strategy)
        remarks = replace(remarks, verdict=_say(picked))
    row_of = {sample: row for row, sample in enumerate(ids)}
    rows = [row_of[str(sample)] for sample in picked.ids]
    said = [[]] * len(rows) if learnt is None else learnt.probabilities(inputs[rows])
    chosen = [
        Candidate(
            pool[places[row]][0],
            None if learnt is None else score,
            SPREAD if learnt is None else picked.strategy,
            pack(values),
        )
        for row, score, values in zip(rows, picked.scores, said, strict=True)
    ]
    return chosen, remarks


def _select(
    this: Round, learnt: Learnt | None, inputs: _Inputs, free: int, k: int, strategy: str
) -> Selection:
    """Let a strategy choose k of the first ``free`` inputs; the others are labelled."""
    model = _untaught(inputs) if learnt is None else learnt.model
    names = this.classes.names
    how = SelectionOptions(
        seed=this.seed,
        task=None if learnt is None else learnt.task,
        labelled=inputs.ids[free:] if this.probes else None,
        progress=this.progress,
        class_names=names if learnt is not None and not this.settings.multi_label else (),
    )
    # Not ``select``: what that would warn of is shown on the page.
    chosen = _strategy_of(this.settings, strategy)
    return choose_from(model, as_samples(inputs), min(k, free), chosen, how).selection


@torch.no_grad()
def _untaught(inputs: _Inputs) -> Probe:
    """Return a probe without an opinion, on features that are centred as a fitted one's are."""
    probe = Probe(inputs.features.shape[1], _ANY_CLASSES)
    probe.mean.copy_(inputs.features.mean(0))
    probe.head.weight.zero_()
    probe.head.bias.zero_()
    return probe.eval()


def _remark(this: Round, picked: Selection, strategy: str) -> Remarks:
    chosen = _strategy_of(this.settings, strategy)
    return Remarks(describe_inversion(picked.regime, chosen), _say(picked))


def _say(picked: Selection) -> str | None:
    return None if picked.verdict is None else str(picked.verdict)


def _strategy_of(settings: Settings, name: str) -> Strategy:
    options = settings.strategy_options if name == settings.picks_by else None
    return as_strategy(name, options)


class _Inputs(Dataset[Tensor]):
    """Features or squares as a pool to choose from, prepared one at a time."""

    def __init__(self, ids: Sequence[str], inputs: Tensor, learnt: Learnt | None) -> None:
        self.ids = list(ids)
        self.features = inputs
        self._learnt = learnt

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Tensor:
        one = self.features[index : index + 1]
        return one[0] if self._learnt is None else self._learnt.prepare(one)[0]

"""The paper's Table 1: how many chosen samples are among those of the highest true gradient norm.

Looking up the labels of unlabelled samples is what the analysis is about: it is an oracle's, and
nothing chosen by it may be trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from steepest.core.progress import Progress
from steepest.core.seeds import SampleId, derive
from steepest.errors import InputError, SteepestError
from steepest.gradnorm.norms import SampleNorm
from steepest.influence import Source
from steepest.paper.analyses.ranking import chance_overlap, highest
from steepest.paper.analyses.sample_norms import NORMS, sample_norms
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import Samples
from steepest.strategies import Strategy
from steepest.strategies.algorithms.ranking import Values
from steepest.tasks.base import Losses

Setting = Literal["same models", "own run"]
"""Whether all methods use one run's models and candidates, or each its own."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One method in one cycle.

    Attributes:
        method: Who chose.
        cycle: Counted from 0.
        setting: By whose models, and from whose candidates.
        norm: The norm by which the true gradients were ranked.
        k: Samples chosen, K.
        candidates: Samples to choose from, R.
        overlap: How many of the chosen are among the K of highest norm; None without a choice.
        chance: The expected overlap of an unrelated choice, K² / R.
        chance_sd: The standard deviation of that.
        reason: Why there is no choice; empty if there is one.
    """

    method: str
    cycle: int
    setting: Setting
    norm: SampleNorm
    k: int
    candidates: int
    overlap: int | None
    chance: float
    chance_sd: float
    reason: str = ""


def oracle_norms(
    model: nn.Module, task: Losses, candidates: Source, *, progress: Progress | None = None
) -> dict[SampleNorm, Values]:
    """Return the gradient norm of each candidate's loss with its true label, by kind of norm.

    Args:
        model: Left unchanged.
        task: Whose training loss is meant.
        candidates: R samples with labels that are hidden elsewhere.
        progress: Updated after each batch.
    """
    found = sample_norms(model, task, candidates, ["true-label"], NORMS, progress=progress)
    return {norm: found["true-label", norm] for norm in NORMS}


def count_overlaps(
    true_norms: Mapping[SampleNorm, Values],
    ids: Sequence[SampleId],
    chosen: Mapping[str, Sequence[SampleId] | str],
    *,
    cycle: int,
    setting: Setting,
    k: int,
    seed: int,
) -> list[Overlap]:
    """Count how many samples of each choice are among the k of highest true gradient norm.

    Args:
        true_norms: Of all candidates [R], by kind of norm.
        ids: The candidates' ids [R].
        chosen: Ids [k] by method, or in words why there are none.
        cycle: Counted from 0.
        setting: By whose models the choices were made.
        k: How many were chosen.
        seed: Breaks ties of true norms, for a purpose of its own.

    Raises:
        InputError: If a choice is not k distinct candidates.
    """
    known = set(ids)
    level = chance_overlap(k, len(ids))
    rows = []
    for norm, values in true_norms.items():
        top = highest(values, ids, k, derive(seed, "table 1 ties", cycle))
        for method, choice in chosen.items():
            reason = choice if isinstance(choice, str) else ""
            picked = set() if isinstance(choice, str) else set(choice)
            if not reason and (len(picked) != k or not picked <= known):
                raise InputError(
                    f"{method} did not choose {k} distinct samples of the {len(ids)} candidates"
                )
            rows.append(
                Overlap(
                    method=method,
                    cycle=cycle,
                    setting=setting,
                    norm=norm,
                    k=k,
                    candidates=len(ids),
                    overlap=None if reason else len(top & picked),
                    chance=level.mean,
                    chance_sd=level.sd,
                    reason=reason,
                )
            )
    return rows


def choose_by(
    model: nn.Module, samples: Samples, k: int, strategy: Strategy, how: SelectionOptions
) -> Sequence[SampleId] | str:
    """Let a strategy choose k samples by a model that may have been trained for another one.

    Args:
        model: Left unchanged.
        samples: All of the pool, labelled samples included.
        k: How many.
        strategy: The strategy.
        how: The labelled samples, the subset to draw and the seed.

    Returns:
        Ids [k], or in words why there are none.
    """
    if reason := _why_not(strategy, how):
        return reason
    try:
        return choose_from(model, samples, k, strategy, how).selection.ids
    except SteepestError as error:
        return str(error)


def _why_not(strategy: Strategy, how: SelectionOptions) -> str:
    given = how.support
    if strategy.members > 1 and not (given and given.members):
        return "needs a committee, which the models of another run have not"
    trains_along = type(strategy).make_extra is not Strategy.make_extra
    if trains_along and not (given and given.extra):
        return "needs what is trained along with its own model"
    return ""

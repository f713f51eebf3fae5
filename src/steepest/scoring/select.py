"""Choose what to label next."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from steepest.errors import InputError
from steepest.gradnorm.precision import Precision
from steepest.pool.values import plain_id
from steepest.progress import Progress
from steepest.scoring.regime import warn_if_inverted
from steepest.scoring.samples import PoolLike, as_samples
from steepest.scoring.score import BatchSize, score
from steepest.scoring.scores import Scores
from steepest.scoring.selection import Selection
from steepest.seeds import SampleId
from steepest.selection import top_k
from steepest.strategies import Strategy
from steepest.tasks.base import Task


def select(
    model: nn.Module,
    pool: PoolLike,
    k: int,
    strategy: str | Strategy = "entropy-gradnorm",
    *,
    options: Mapping[str, Any] | None = None,
    ids: Sequence[SampleId] | None = None,
    labelled: Iterable[SampleId] | None = None,
    subset: int | None = None,
    seed: int = 0,
    task: Task | None = None,
    batch_size: BatchSize = "auto",
    precision: Precision = "tf32",
    device: torch.device | str | None = None,
    progress: bool | Progress = True,
) -> Selection:
    """Choose the k samples of a pool that should be labelled next.

    All arguments but ``k`` are those of ``steepest.score``. Warns when the score ranks the most
    uncertain samples last.

    Args:
        model: Any module that returns logits, or carries them in its output.
        pool: A Dataset, a DataLoader, a tensor, an array or the path of a folder of images.
        k: How many samples to choose.
        strategy: A name from ``steepest.strategies.names()``, or a strategy.
        options: Options for a strategy given by name.
        ids: Names of the samples; by default the pool's own, or the index.
        labelled: Ids to leave out because they carry a label already.
        subset: Score only a random subset of this size (the paper takes 10 · k).
        seed: Seeds every draw, ties included; draws are keyed by sample id.
        task: Whose training loss ``expected-gradnorm`` and ``egl`` use; default cross-entropy.
        batch_size: Samples in flight; the result does not depend on it.
        precision: In what precision gradients are measured: ``"fp32"``, ``"tf32"`` or ``"bf16"``.
        device: Where to compute; by default where the model is.
        progress: Whether to show progress.

    Raises:
        InputError: If k is less than 1 or more than there are candidates.
        SteepestError: In one line, if something else cannot be used.
    """
    samples = as_samples(pool, ids)
    taken = None if labelled is None else {plain_id(i) for i in labelled}
    k = check_k(k, len(samples) - len(taken or ()), subset)
    scores = score(
        model,
        samples,
        strategy,
        options=options,
        labelled=taken,
        subset=subset,
        seed=seed,
        task=task,
        batch_size=batch_size,
        precision=precision,
        device=device,
        progress=progress,
    )
    warn_if_inverted(scores.regime, scores.strategy)
    return choose(scores, k)


def choose(scores: Scores, k: int) -> Selection:
    """Take the k highest scores, best first."""
    k = check_k(k, len(scores), None)
    best = top_k(scores.values, scores.ids, k, scores.seed)
    return Selection(
        ids=tuple(scores.ids[i] for i in best),
        scores=tuple(float(scores.values[i]) for i in best),
        strategy=scores.strategy,
        options=dict(scores.options),
        seed=scores.seed,
        model=scores.model,
        regime=scores.regime,
        candidates=len(scores),
    )


def check_k(k: Any, unlabelled: int, subset: int | None) -> int:  # noqa: ANN401
    """Return k as a plain number, if that many samples can be chosen.

    Raises:
        InputError: Says the largest k that can.
    """
    try:
        number = 0 if isinstance(k, bool) else operator.index(k)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}")
    if number > unlabelled:
        raise InputError(f"k = {k}, but only {unlabelled} samples can be chosen: lower k")
    if subset is not None and number > subset:
        raise InputError(f"k = {k} is more than the subset of {subset} that would be scored")
    return number

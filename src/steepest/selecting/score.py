"""Score every sample of a pool under the present model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from steepest.core.progress import Progress
from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.modules.checks import unspread
from steepest.modules.fingerprint import fingerprint
from steepest.modules.precision import Precision
from steepest.selecting.options import DEFAULT_SCORE, BatchSize, SelectionOptions, as_strategy
from steepest.selecting.pool_view import check_model, open_view
from steepest.selecting.provenance import conditions_of
from steepest.selecting.ray_engine import Engine
from steepest.selecting.regime import diagnose
from steepest.selecting.samples import PoolLike, as_samples
from steepest.selecting.scores import Scores
from steepest.selecting.shards import check_shardable
from steepest.strategies import Needs, Scorer, Strategy, Support
from steepest.tasks.base import Task


def score(
    model: nn.Module,
    pool: PoolLike,
    strategy: str | Strategy = DEFAULT_SCORE,
    *,
    options: Mapping[str, Any] | None = None,
    ids: Sequence[SampleId] | None = None,
    labelled: Iterable[SampleId] | None = None,
    subset: int | None = None,
    seed: int = 0,
    task: Task | str | None = None,
    batch_size: BatchSize = "auto",
    precision: Precision = "tf32",
    device: torch.device | str | None = None,
    progress: bool | Progress = True,
    support: Support | None = None,
    shard: str | None = None,
    engine: Engine = "here",
) -> Scores:
    """Score the samples of a pool; higher = label first.

    The model runs in eval mode and is left unchanged.

    Args:
        model: Any module that returns logits, or carries them in its output.
        pool: A Dataset, a DataLoader, a tensor, an array or the path of a folder of images.
        strategy: The name of a strategy that gives every sample a score, or such a strategy.
        options: Options for a strategy given by name.
        ids: Names of the samples; by default the pool's own, or the index.
        labelled: Ids to leave out because they carry a label already.
        subset: Score a random subset of this size only (the paper takes 10 · k).
        seed: Random seed; draws are keyed by sample id.
        task: The model's task: classification (default), segmentation or multi-label, by name or as
            a task. It defines the meaning of the logits and the losses: of the prediction alone by
            ``entropy-gradnorm`` and ``expected-gradnorm``, with a label by ``egl``, ``isal`` and
            ``ll4al``. A name stands for the task with as many classes as the model has.
        batch_size: Samples per batch; the result does not depend on it.
        precision: Precision of gradients, for strategies that take them: ``"fp32"``, ``"tf32"``
            (GPUs may multiply with ten bits of fraction; on a CPU it is fp32) or ``"bf16"``.
        device: The device; by default the model's.
        progress: Whether to show progress.
        support: Inputs of some strategies besides the model: targets of labelled samples, a
            committee, the model of the cycle before, features; see ``Support``.
        shard: Score one of several parts of the candidates, such as ``"2/4"``; ``Scores.merge``
            puts all of them together.
        engine: Where passes over the model run: ``"here"``, or ``"ray"`` for actors on a Ray
            cluster, which give the same scores; ``OnRay`` says which cluster, and keeps finished
            parts.

    Raises:
        SteepestError: In one line, if something cannot be used.
    """
    check_model(model)
    model, chosen = unspread(model), as_strategy(strategy, options)
    how = SelectionOptions(
        labelled=labelled,
        subset=subset,
        seed=seed,
        task=task,
        batch_size=batch_size,
        precision=precision,
        device=device,
        progress=progress,
        support=support,
        shard=shard,
        engine=engine,
    )
    if how.part.count > 1:
        check_shardable(chosen)
    if not isinstance(chosen, Scorer):
        raise InputError(
            f"{chosen.name} chooses a batch as a whole and has no score for each sample: use select"
        )
    scored_by = fingerprint(model)
    samples = as_samples(pool, ids)
    with open_view(model, samples, chosen, how) as view:
        conditions = conditions_of(view.lens, precision, samples) if how.part.count > 1 else None
        view.prepared = chosen.prepare(view)
        values = chosen.score_all(view)
        regime = diagnose(values, view.entropies, view.classes)
    view.first.warn(stacklevel=2)
    return Scores(
        ids=view.ids,
        values=values.astype(np.float64),
        strategy=chosen.name,
        options=chosen.options(),
        seed=how.seed,
        model=scored_by,
        regime=regime,
        entropies=view.entropies,
        classes=view.classes,
        predicted=view.predicted,
        gradients=Needs.GRADIENTS in chosen.needs,
        shard=how.part,
        conditions=conditions,
    )

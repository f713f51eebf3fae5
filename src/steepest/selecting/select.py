"""Choose the samples to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from steepest.core.progress import Progress
from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.modules.checks import unspread
from steepest.modules.precision import Precision
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import (
    DEFAULT_STRATEGY,
    BatchSize,
    SelectionOptions,
    as_strategy,
    check_class_names,
    check_k,
)
from steepest.selecting.pool_view import check_model
from steepest.selecting.ray_engine import Engine
from steepest.selecting.regime import warn_if_inverted
from steepest.selecting.samples import PoolLike, as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy, Support
from steepest.tasks.base import Task
from steepest.tasks.classification import Classification


def select(
    model: nn.Module | str | None,
    pool: PoolLike,
    k: int,
    strategy: str | Strategy | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    ids: Sequence[SampleId] | None = None,
    labelled: Iterable[SampleId] | None = None,
    labels: Mapping[Any, Any] | Path | str | None = None,
    subset: int | None = None,
    seed: int = 0,
    task: Task | str | None = None,
    batch_size: BatchSize = "auto",
    precision: Precision = "tf32",
    device: torch.device | str | None = None,
    progress: bool | Progress = True,
    support: Support | None = None,
    class_names: Sequence[str] = (),
    engine: Engine = "here",
) -> Selection:
    """Choose the k samples of a pool that should be labelled next.

    Warns when a gradient norm ranks the most uncertain samples last.

    Args:
        model: Any module that returns logits, or carries them in its output. None, or the name of
            a pretrained net, if there is no model yet: a head is fitted to ``labels`` on that
            net's features; before there are labels of two classes, the picks cover the pool.
        pool: A Dataset, a DataLoader, a tensor, an array or the path of a folder of images.
            Without a model a folder of images, images as bytes [N, 3, H, W], or rows of features.
        k: How many samples to choose.
        strategy: A name from ``steepest.strategies.names()``, or a strategy; by default
            ``steepest``, without a model one for features.
        options: Options for a strategy given by name.
        ids: Names of the samples; by default the pool's own, or the index.
        labelled: Ids to leave out because they carry a label already.
        labels: Without a model, the class of each labelled sample by id, by name or number, or
            the path of a file with them.
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
        class_names: The names of the classes in the model's order [C], for the verdict.
        engine: Where passes over the model run: ``"here"``, or ``"ray"`` for actors on a Ray
            cluster, which choose the same samples; ``OnRay`` says which cluster, and keeps finished
            parts.

    Raises:
        InputError: If k is less than 1 or exceeds the number of candidates.
        SteepestError: In one line, if something else cannot be used.
    """
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
        class_names=check_class_names(class_names),
        engine=engine,
    )
    if model is None or isinstance(model, str):
        if how.on_ray is not None:
            raise InputError("engine 'ray' runs a model of yours: give it, or leave out engine=")
        return _select_on_features(model, pool, k, strategy, options, ids, labels, how)
    check_model(model)
    if labels is not None:
        raise InputError(
            "labels= is for choosing without a model: give labelled= the ids, and "
            "support=Support(targets=…) the classes if the strategy learns from them"
        )
    model, samples = unspread(model), as_samples(pool, ids)
    chosen = as_strategy(DEFAULT_STRATEGY if strategy is None else strategy, options)
    taken = how.labelled
    free = len(samples) if not taken else sum(i not in taken for i in samples.ids)
    k = check_k(k, free, how.subset)
    outcome = choose_from(model, samples, k, chosen, how)
    warn_if_inverted(outcome.selection.regime, chosen)
    return outcome.selection


def _select_on_features(
    backbone: str | None,
    pool: PoolLike,
    k: int,
    strategy: str | Strategy | None,
    options: Mapping[str, Any] | None,
    ids: Sequence[SampleId] | None,
    labels: Mapping[Any, Any] | Path | str | None,
    how: SelectionOptions,
) -> Selection:
    """Choose without a model of the user's."""
    from steepest.data.label_table import read_labels
    from steepest.features.pool import pool_features
    from steepest.selecting.pretrained import choose_on_features

    check_without_model(how)
    if strategy is None and options:
        raise InputError("options belong to a strategy given by name: name it too")
    chosen = None if strategy is None else as_strategy(strategy, options)
    table = pool_features(
        pool,
        backbone,
        ids=ids,
        batch_size=None if how.batch_size == "auto" else how.batch_size,
        device="auto" if how.device is None else how.device,
        progress=how.progress,
    )
    if isinstance(labels, (str, Path)):
        root = Path(pool) if isinstance(pool, (str, Path)) else None
        labels = read_labels(Path(labels), table.ids, root).labels
    return choose_on_features(table, k, chosen, how, labels).selection


def check_without_model(how: SelectionOptions) -> None:
    """Refuse tasks that a linear head on features is not for.

    Raises:
        InputError: Saying so.
    """
    if how.task is None or how.task == "classification" or isinstance(how.task, Classification):
        return
    raise InputError(
        "without a model of yours each sample has one class of several: leave task out"
    )

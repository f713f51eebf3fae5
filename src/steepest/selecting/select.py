"""Choose what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from steepest.core.memory import Measurement, measured
from steepest.core.progress import Progress
from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.modules.checks import unspread
from steepest.modules.fingerprint import fingerprint
from steepest.modules.precision import Precision
from steepest.selecting.looking import as_strategy, check_model, looking_at
from steepest.selecting.options import (
    DEFAULT_STRATEGY,
    BatchSize,
    Engine,
    SelectionOptions,
    check_class_names,
    check_subset,
    whole_number,
)
from steepest.selecting.regime import diagnose, warn_if_inverted
from steepest.selecting.samples import PoolLike, Samples, as_samples
from steepest.selecting.selection import Selection
from steepest.strategies import Strategy, Support
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.verdict import judge
from steepest.strategies.choice import checked
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
        seed: Decides every draw; draws are keyed by sample id.
        task: What the model was trained for: classification (default), segmentation or
            multi-label, by name or as a task. It says what logits mean, and whose losses are used:
            of the prediction alone by ``entropy-gradnorm`` and ``expected-gradnorm``, with a label
            by ``egl``, ``isal`` and ``ll4al``. A name stands for the task with as many classes as
            the model has.
        batch_size: Samples at once; the result does not depend on it.
        precision: Precision of gradients, for strategies that take them: ``"fp32"``, ``"tf32"``
            (GPUs may multiply with ten bits of fraction; on a CPU it is fp32) or ``"bf16"``.
        device: Where to compute; by default where the model is.
        progress: Whether to show progress.
        support: What some strategies take beside the model: targets of labelled samples, a
            committee, the model of the cycle before, features; see ``Support``.
        class_names: The names of the classes in the model's order [C], for the verdict.
        engine: Where passes over the model run: ``"here"``, or ``"ray"`` for actors on a Ray
            cluster, which choose the same samples; ``OnRay`` says which cluster, and keeps finished
            parts.

    Raises:
        InputError: If k is less than 1 or more than there are candidates.
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
        "without a model of yours one class of several is told for each sample: leave task out"
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """A selection, and what is worth knowing beside it.

    Attributes:
        selection: What was chosen.
        lowest: The least wanted candidates with their scores, lowest first; none if samples have
            no score each.
        preparing: What training for the strategy cost, before choosing; None if it takes none.
        choosing: What choosing cost.
    """

    selection: Selection
    lowest: tuple[tuple[SampleId, float], ...]
    preparing: Measurement | None
    choosing: Measurement


def choose_from(
    model: nn.Module,
    samples: Samples,
    k: int,
    strategy: Strategy,
    how: SelectionOptions,
    lowest: int = 0,
) -> Outcome:
    """Let a strategy choose k samples.

    Args:
        model: Left as found.
        samples: All of the pool, labelled samples included.
        k: How many.
        strategy: Who chooses.
        how: How it looks at the pool.
        lowest: How many of the least wanted samples to name.
    """
    strategy.check_k(k)
    chosen_by = fingerprint(model)
    with looking_at(model, samples, strategy, how) as view:
        with measured(view.device) as preparing:
            view.prepared = strategy.prepare(view)
        with measured(view.device) as choosing:
            found = checked(strategy.choose(view, k), len(view), k, strategy.name)
        regime = diagnose(found.values, view.entropies, view.classes)
    verdict = judge(
        view.predicted,
        found.positions,
        view.classes,
        names=how.class_names,
        by_score=found.values is not None,
        said=found.said,
    )
    view.first.warn(stacklevel=3)
    selection = Selection(
        ids=tuple(view.ids[i] for i in found.positions),
        scores=tuple(float(value) for value in found.scores),
        strategy=strategy.name,
        options=strategy.options(),
        seed=how.seed,
        model=chosen_by,
        regime=regime,
        candidates=len(view),
        verdict=verdict,
    )
    last: tuple[tuple[SampleId, float], ...] = ()
    # A million scores are not ranked once more for nobody.
    if found.values is not None and lowest > 0:
        values = found.values
        last = tuple(
            (view.ids[i], float(values[i])) for i in top_k(-values, view.ids, lowest, how.seed)
        )
    return Outcome(selection, last, None if view.prepared is None else preparing, choosing)


def check_k(k: Any, unlabelled: int, subset: int | None) -> int:  # noqa: ANN401
    """Return k as a plain number, if that many samples can be chosen.

    Raises:
        InputError: Says the largest k that can.
    """
    subset = check_subset(subset)
    number = whole_number(k)
    if number is None or number < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}")
    if unlabelled < 1:
        raise InputError(
            f"k = {k}, but no sample is left to choose: all are labelled, waiting or skipped"
        )
    if number > unlabelled:
        raise InputError(
            f"k = {k}, but only {counted(unlabelled, 'sample')} can be chosen: lower k"
        )
    if subset is not None and number > subset:
        raise InputError(f"k = {k} is more than the subset of {subset} that would be scored")
    return number

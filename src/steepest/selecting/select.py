"""Choose what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    BatchSize,
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
    task: Task | str | None = None,
    batch_size: BatchSize = "auto",
    precision: Precision = "tf32",
    device: torch.device | str | None = None,
    progress: bool | Progress = True,
    support: Support | None = None,
    class_names: Sequence[str] = (),
) -> Selection:
    """Choose the k samples of a pool that should be labelled next.

    Warns when a gradient norm ranks the most uncertain samples last.

    Args:
        model: Any module that returns logits, or carries them in its output.
        pool: A Dataset, a DataLoader, a tensor, an array or the path of a folder of images.
        k: How many samples to choose.
        strategy: A name from ``steepest.strategies.names()``, or a strategy.
        options: Options for a strategy given by name.
        ids: Names of the samples; by default the pool's own, or the index.
        labelled: Ids to leave out because they carry a label already.
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

    Raises:
        InputError: If k is less than 1 or more than there are candidates.
        SteepestError: In one line, if something else cannot be used.
    """
    check_model(model)
    model, samples = unspread(model), as_samples(pool, ids)
    chosen = as_strategy(strategy, options)
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
    )
    taken = how.labelled
    free = len(samples) if not taken else sum(i not in taken for i in samples.ids)
    k = check_k(k, free, how.subset)
    outcome = choose_from(model, samples, k, chosen, how)
    warn_if_inverted(outcome.selection.regime, chosen)
    return outcome.selection


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

"""Effect of reduced precision on the scores and the ranking of a pool by a trained model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from steepest.bench.case import numerics
from steepest.bench.child import Job, score_in_child, score_pool
from steepest.bench.machine import describe_machine
from steepest.bench.storage import (
    NONE,
    SCHEMA,
    STOPPED,
    Stored,
    Table,
    brief_with_kind,
    say_status,
    show_number,
)
from steepest.core.progress import Progress
from steepest.core.seeds import SampleId, derive, random_subset
from steepest.data import ImageSet, load
from steepest.data.alterations import take
from steepest.errors import InputError
from steepest.experiment.building import fresh_model, make_task
from steepest.experiment.config import Config, load_config
from steepest.experiment.seeding import initial_ids
from steepest.gradnorm import Norm, Precision, reference_norms
from steepest.strategies.algorithms import rank_correlation, top_k
from steepest.strategies.algorithms.ranking import Values
from steepest.tasks.base import Metric
from steepest.training import evaluate, fit
from steepest.training.augment import normalise

LARGEST_POOL = 25_000
"""Samples that are scored by default, where there are as many."""

_CHECKED = 32
_NO_TF32 = "a CPU has no tf32: computed as fp32"
_HEADER = (
    "precision",
    "Spearman",
    "common in the top",
    "share",
    "median error",
    "largest error",
    "median against fp64",
    "largest against fp64",
)


@dataclass(frozen=True)
class Settings:
    """Settings: the model to train and the pool to score.

    Attributes:
        preset: A preset, or the path of a configuration.
        device: Where.
        epochs: Passes over the labelled samples; None takes the preset's.
        labels: Labelled samples; None takes the preset's.
        pool: Unlabelled samples to score, at most.
        top: The share of the pool that counts as chosen.
        seed: Decides the labelled samples, the weights, the training and the pool.
        command: The command as typed, for the record.
    """

    preset: str
    device: torch.device
    epochs: int | None = None
    labels: int | None = None
    pool: int = LARGEST_POOL
    top: float = 0.1
    seed: int = 0
    command: str = ""

    def __post_init__(self) -> None:
        """Raise if something cannot be used.

        Raises:
            InputError: Says the remedy.
        """
        least = (
            ("--epochs", self.epochs, 1),
            ("--train-size", self.labels, 1),
            ("--pool-size", self.pool, 2),
        )
        for name, value, smallest in least:
            if value is not None and value < smallest:
                raise InputError(f"{name} {value}: at least {smallest} is needed")
        if not 0 < self.top <= 1:
            raise InputError(f"--top {self.top}: give a share of the pool, above 0 and up to 1")

    def config(self) -> Config:
        """Return the preset's configuration with the requested changes."""
        config = replace(load_config(self.preset), seed=self.seed)
        if self.labels is not None:
            config = replace(config, loop=replace(config.loop, initial=self.labels))
        if self.epochs is not None:
            config = replace(config, training=replace(config.training, epochs=self.epochs))
        return config


class PrecisionBench:
    """Trains once, scores in every precision, and can report the results so far at any moment.

    Args:
        settings: What to train and to score.
        progress: Shows how far it is.

    Raises:
        InputError: If the preset is not known.
        DataError: If its data set is not there.
    """

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._config = settings.config()
        self._data = load(self._config.data.name)
        self._norm: Norm = self._config.strategy.options.get("norm", "l2")
        self._trained: Trained | None = None
        self._checked = 0
        self._rows = [PrecisionMeasurement(p, "unfinished", STOPPED) for p in get_args(Precision)]

    def run(self, after_each: Callable[[PrecisionResult], None] | None = None) -> PrecisionResult:
        """Measure everything.

        Args:
            after_each: Called with what is known when a precision is done.
        """
        settings, config = self._settings, self._config
        # Training may be quick; scoring sets its own precision each time.
        training: Precision = "tf32" if settings.device.type == "cuda" else "fp32"
        with numerics(training, config.threads):
            self._trained = trained = train_and_draw(
                config, self._data, settings.pool, settings.device, self._progress
            )
            truth = self._true_scores(trained)
            self._checked = len(truth)
            strict = score_pool(trained.model, trained.pool, self._norm, "fp32", self._progress)
            for i, row in enumerate(self._rows):
                self._rows[i] = self._measure(row, trained, strict, truth)
                if after_each is not None:
                    after_each(self.result())
        return self.result()

    def result(self) -> PrecisionResult:
        """Return the results so far."""
        settings, config, trained = self._settings, self._config, self._trained
        return PrecisionResult(
            schema=SCHEMA,
            command=settings.command,
            environment=describe_machine(settings.device) | {"threads": config.threads},
            device=settings.device.type,
            seed=settings.seed,
            complete=all(row.status != "unfinished" for row in self._rows),
            threads=config.threads,
            preset=settings.preset,
            data=config.data.name,
            model=config.model.name,
            norm=self._norm,
            labels=config.loop.initial,
            epochs=config.training.epochs,
            test_metrics={} if trained is None else dict(trained.metrics),
            pool=0 if trained is None else len(trained.ids),
            top=settings.top,
            checked=self._checked,
            precisions=tuple(self._rows),
        )

    def _measure(
        self, row: PrecisionMeasurement, trained: Trained, strict: Values, truth: Values
    ) -> PrecisionMeasurement:
        try:
            found, note = self._score(row.precision, trained, strict)
        except Exception as error:  # noqa: BLE001 - one precision's trouble is recorded
            return replace(row, status="failed", note=brief_with_kind(error))
        settings = self._settings
        errors = relative_errors(found[: len(truth)], truth)
        return PrecisionMeasurement(
            row.precision,
            "measured",
            note,
            compare_scores(found, strict, trained.ids, settings.top, settings.seed),
            float(np.median(errors)),
            float(errors.max()),
        )

    def _score(self, precision: Precision, trained: Trained, strict: Values) -> tuple[Values, str]:
        """Return the scores in one precision, with a note."""
        if precision == "fp32":
            return strict, ""
        on_cpu = self._settings.device.type == "cpu"
        if on_cpu and precision == "bf16":
            with self._progress.task(f"scoring in {precision}", 1):
                return score_in_child(self._job(precision), trained.model, trained.pool)
        note = _NO_TF32 if on_cpu and precision == "tf32" else ""
        return score_pool(trained.model, trained.pool, self._norm, precision, self._progress), note

    def _job(self, precision: Precision) -> Job:
        classes, channels = len(self._data.classes), self._data.channels
        name, threads = self._config.model.name, self._config.threads
        return Job(name, classes, channels, self._norm, precision, threads)

    def _true_scores(self, trained: Trained) -> Values:
        """Return the first samples' scores in double precision, one sample at a time."""
        inputs = trained.pool[:_CHECKED].to(self._settings.device).double()
        model = copy.deepcopy(trained.model).double()
        scores: Values = reference_norms(model, inputs, norm=self._norm).cpu().numpy()
        return scores


@dataclass(frozen=True)
class PrecisionMeasurement:
    """One precision.

    Attributes:
        precision: Its name.
        status: How it went.
        note: What to know of it, or why there are no numbers.
        agreement: With strict fp32, over the whole pool.
        true_median_error: Median relative error against fp64, over the checked samples.
        true_largest_error: The largest of them.
    """

    precision: Precision
    status: Literal["measured", "failed", "unfinished"]
    note: str = ""
    agreement: Agreement | None = None
    true_median_error: float | None = None
    true_largest_error: float | None = None


@dataclass(frozen=True)
class PrecisionResult(Stored):
    """A whole run of ``steepest bench precision``.

    Attributes:
        threads: CPU threads.
        preset: The configuration that the model was trained by.
        data: The data set.
        model: The model.
        norm: The norm that was the score.
        labels: Labelled samples that it was trained on.
        epochs: Passes over them.
        test_metrics: How good it is.
        pool: Unlabelled samples that were scored (n).
        top: The share of the pool that counts as chosen.
        checked: Samples compared with fp64.
        precisions: One measurement each.
    """

    threads: int
    preset: str
    data: str
    model: str
    norm: str
    labels: int
    epochs: int
    test_metrics: Mapping[str, Any]
    pool: int
    top: float
    checked: int
    precisions: tuple[PrecisionMeasurement, ...]


def precision_table(result: PrecisionResult) -> Table:
    """Return one row for each precision."""
    return Table(
        _conditions(result),
        _HEADER,
        [_row(m) for m in result.precisions],
        [say_status(m.status, m.note) for m in result.precisions],
        [m.precision for m in result.precisions],
    )


def _conditions(result: PrecisionResult) -> str:
    metrics = ", ".join(
        f"test {name} {value:.4f}"
        for name, value in result.test_metrics.items()
        if isinstance(value, float)
    )
    place = result.environment["device"]
    return (
        f"{result.preset}: {result.model} after {result.epochs} epochs on {result.labels} labels "
        f"of {result.data} ({metrics or 'not trained'}); {result.norm} norms of n = "
        f"{result.pool} unlabelled samples against strict fp32, of {result.checked} against fp64; "
        f"{place}; seed {result.seed}"
    )


def _row(m: PrecisionMeasurement) -> list[str]:
    true = [show_number(m.true_median_error, ".1e"), show_number(m.true_largest_error, ".1e")]
    if m.agreement is None:
        return [m.precision, *[NONE] * 5, *true]
    a = m.agreement
    return [
        m.precision,
        show_number(a.spearman, ".6f"),
        f"{a.top_common} of {a.top_count}",
        f"{100 * a.top_share:.1f} %",
        show_number(a.median_error, ".1e"),
        show_number(a.largest_error, ".1e"),
        *true,
    ]


@dataclass(frozen=True)
class Agreement:
    """Agreement of scores with others of the same samples.

    Attributes:
        spearman: Rank correlation; None if all scores are equal.
        top_count: How many count as chosen (k).
        top_common: How many of the k highest are among the other k highest.
        median_error: Median relative error.
        largest_error: Largest relative error.
    """

    spearman: float | None
    top_count: int
    top_common: int
    median_error: float
    largest_error: float

    @property
    def top_share(self) -> float:
        """The common part of the k highest."""
        return self.top_common / self.top_count


def compare_scores(
    found: Values, wanted: Values, ids: Sequence[SampleId], top: float, seed: int
) -> Agreement:
    """Compare scores with those that they should be.

    Args:
        found: Scores [N].
        wanted: What they should be [N].
        ids: Ids [N]; ties are broken by them, as in a selection.
        top: The share of the samples that counts as chosen; at least one sample is.
        seed: Seeds the draw among ties.
    """
    count = max(1, round(top * len(ids)))
    chosen = (set(top_k(values, ids, count, seed).tolist()) for values in (found, wanted))
    errors = relative_errors(found, wanted)
    return Agreement(
        rank_correlation(found, wanted),
        count,
        len(set.intersection(*chosen)),
        float(np.median(errors)),
        float(errors.max()),
    )


def relative_errors(found: Values, wanted: Values) -> Values:
    """Return |found − wanted| / |wanted| [N]; a zero that is met has no error."""
    errors: Values = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-300)
    return errors


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model and what it has not seen.

    Attributes:
        model: In eval mode, on the device.
        metrics: How good it is on the test images.
        ids: Ids of the pool [N].
        pool: The pool's samples as the model takes them, on the CPU [N, C, H, W].
    """

    model: nn.Module
    metrics: dict[str, Metric]
    ids: Sequence[int]
    pool: Tensor


def train_and_draw(
    config: Config, data: ImageSet, pool: int, device: torch.device, progress: Progress
) -> Trained:
    """Train as the first cycle of an experiment does, and draw a pool from the rest.

    Args:
        config: Says the model, the labels (``loop.initial``), the recipe and the seed.
        data: The data set.
        pool: How many unlabelled samples at most.
        device: The device to train on.
        progress: Updated after each epoch.

    Raises:
        InputError: If no sample would be left unlabelled.
    """
    ids, labels = data.ids, config.loop.initial
    if labels >= len(ids):
        raise InputError(
            f"--train-size {labels}: {data.name} has {len(ids)} samples; leave some for the pool"
        )
    labelled = [int(i) for i in initial_ids(ids, labels, config.seed)]
    model = fresh_model(config.model, data, config.seed)
    task = make_task(config, data)
    known = data.train_labels.unseal_rows(labelled, "training on the initial set")
    fit(
        model,
        task,
        take(data.train_images, labelled),
        known,
        config.training,
        mean=data.mean,
        std=data.std,
        augmentation=data.augmentation,
        seed=derive(config.seed, "training", 0),
        device=device,
        progress=progress,
    )
    test, truth = data.test_images, data.test_labels
    metrics = evaluate(model, task, test, truth, mean=data.mean, std=data.std, device=device)
    seen = set(labelled)
    rest = [i for i in ids if i not in seen]
    drawn = [rest[i] for i in random_subset(rest, pool, config.seed)]
    samples = normalise(data.train_images[drawn], data.mean, data.std)
    return Trained(model, metrics, drawn, samples)

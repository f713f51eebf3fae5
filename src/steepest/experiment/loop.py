"""The active-learning loop: train, score, choose, label, again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from steepest.datasets import ImageSet, load
from steepest.devices import choose_device
from steepest.errors import ConfigError, ModelError
from steepest.experiment.config import Config
from steepest.experiment.environment import describe_environment
from steepest.experiment.folder import RunFolder
from steepest.experiment.measure import Measurement, measured
from steepest.experiment.record import Cost, Record, Wish
from steepest.experiment.start import starting_model
from steepest.experiment.views import pool_view
from steepest.labelling import Labeller, OracleLabeller
from steepest.labelling.apply import apply
from steepest.models import build
from steepest.models.fingerprint import fingerprint
from steepest.pool import Pool, State
from steepest.progress import Progress, SilentProgress
from steepest.scoring import Scores, Selection, score
from steepest.scoring.select import choose
from steepest.seeds import SampleId, derive
from steepest.selection import random_subset, top_k
from steepest.strategies import create
from steepest.tables import from_table
from steepest.tasks.base import TASKS, Metric, Task
from steepest.training import fit, predict_logits

_SHOWN = 8
"""How many of the most and least wanted samples a record keeps."""


class Experiment:
    """One run of the active-learning loop, resumable at every moment.

    Args:
        config: What to run.
        out: The run's folder. The same folder and configuration go on where they stopped.
        data: The data set, if it is loaded already.
        labeller: Who answers; by default the data set's own labels.
        progress: Told of trainings and scorings.

    Raises:
        ConfigError: If the budget is more than the data set holds.
    """

    def __init__(
        self,
        config: Config,
        out: Path | str,
        *,
        data: ImageSet | None = None,
        labeller: Labeller | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.config = config
        self.out = Path(out)
        self.device = choose_device(config.device)
        self.data = load(config.data.name) if data is None else data
        self.strategy = create(config.strategy.name, config.strategy.options)
        self.task = _make_task(config, self.data)
        self._labeller = labeller
        self._progress = progress or SilentProgress()
        _check_budget(config, self.data)
        self._check_model()

    def run(self, deadline: float | None = None) -> list[Record]:
        """Run all cycles that are not on record yet, and return the records of all.

        Args:
            deadline: In the seconds of ``time.time()``; a cycle that would probably end later is
                not begun. The next call goes on from there.
        """
        folder = RunFolder(self.out, self.config)
        threads = torch.get_num_threads()
        torch.set_num_threads(self.config.threads)
        try:
            with folder.open_pool(self.data.ids) as pool:
                self._cycles(folder, pool, deadline)
            return list(folder.records)
        finally:
            torch.set_num_threads(threads)
            folder.close()

    def _cycles(self, folder: RunFolder, pool: Pool, deadline: float | None) -> None:
        """Algorithm 1: train T on L; score a subset of U; label the K best; repeat."""
        loop = self.config.loop
        labeller = self._labeller or OracleLabeller(self.data.train_labels)
        self._replay(folder, pool, labeller)
        model: nn.Module | None = None
        for cycle in range(len(folder.records), loop.cycles):
            if deadline is not None and _expected_end(folder.records, loop.k) > deadline:
                return
            model = starting_model(self.config, self.data, folder, cycle, previous=model)
            ids, labels = _labelled(pool)
            with measured(self.device) as training:
                self._fit(model, ids, labels, cycle)
            with measured(self.device) as scoring:
                last = cycle + 1 == loop.cycles
                scores = None if last else self._score(model, pool, cycle)
            selection = None if scores is None else choose(scores, loop.k)
            folder.save_model(model, cycle)
            record = self._record(cycle, model, pool, scores, selection, training, scoring)
            folder.commit(record, keep_all_weights=loop.keep_weights == "all")
            self._label(pool, labeller, record.selected, cycle=cycle + 1)

    def _replay(self, folder: RunFolder, pool: Pool, labeller: Labeller) -> None:
        """Bring the pool to where the records are: labels that are missing, or too many."""
        batches = [self._initial_ids(), *(record.selected for record in folder.records)]
        bought = {sample for batch in batches for sample in batch}
        extra = [sample for sample in pool.taken() if sample not in bought]
        pool.unlabel(extra, cycle=len(folder.records), who="resume")
        for cycle, batch in enumerate(batches):
            self._label(pool, labeller, batch, cycle=cycle)

    def _initial_ids(self) -> list[SampleId]:
        """Return the random initial set: the same for every strategy of a seed."""
        ids = self.data.ids
        rows = random_subset(ids, self.config.loop.initial, self.config.seed, "initial set")
        return [ids[int(row)] for row in rows]

    def _label(self, pool: Pool, labeller: Labeller, ids: Sequence[SampleId], cycle: int) -> None:
        """Ask for labels; what has been asked or answered already is passed over."""
        new = [i for i in ids if pool.state(i) == State.UNLABELLED]
        pool.query(new, cycle=cycle, who=self.strategy.name if cycle else "initial set")
        open_ids = [i for i in ids if pool.state(i) == State.QUERIED]
        apply(pool, labeller.label(open_ids), cycle=cycle, who=labeller.name)

    def _fit(self, model: nn.Module, ids: list[int], labels: Tensor, cycle: int) -> None:
        fit(
            model,
            self.task,
            self.data.train_images[ids],
            labels,
            self.config.training,
            mean=self.data.mean,
            std=self.data.std,
            augmentation=self.data.augmentation,
            seed=derive(self.config.seed, "training", cycle),
            device=self.device,
            progress=self._progress,
        )

    def _score(self, model: nn.Module, pool: Pool, cycle: int) -> Scores:
        return score(
            model,
            pool_view(self.data),
            self.strategy,
            labelled=pool.taken(),
            subset=self.config.loop.candidates,
            seed=derive(self.config.seed, "selection", cycle),
            task=self.task,
            progress=self._progress,
        )

    def _metrics(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Metric]:
        return self.task.metrics(self._predict(model, images), labels)

    def _predict(self, model: nn.Module, images: Tensor) -> Tensor:
        mean, std = self.data.mean, self.data.std
        return predict_logits(model, images, mean=mean, std=std, device=self.device)

    def _check_model(self) -> None:
        """Let a fresh model look at two images, so that misfits show before anything begins."""
        classes = len(self.data.classes)
        channels = self.data.train_images.shape[1]
        model = build(self.config.model.name, classes, channels, self.config.seed)
        outputs = self._predict(model, self.data.train_images[:2]).shape[1]
        if outputs != classes:
            raise ModelError(
                f"the model has {outputs} outputs, but {self.data.name} has {classes} classes: "
                "give the model that many outputs"
            )

    def _record(
        self,
        cycle: int,
        model: nn.Module,
        pool: Pool,
        scores: Scores | None,
        selection: Selection | None,
        training: Measurement,
        scoring: Measurement,
    ) -> Record:
        ids, labels = _labelled(pool)
        wanted, unwanted = _extremes(scores)
        return Record(
            cycle=cycle,
            strategy=self.strategy.name,
            options=self.strategy.options(),
            seed=self.config.seed,
            labelled=len(ids),
            unlabelled=pool.counts()[State.UNLABELLED],
            subset=0 if scores is None else len(scores),
            metrics=self._metrics(model, self.data.test_images, self.data.test_labels),
            train_metrics=self._metrics(model, self.data.train_images[ids], labels),
            selected=() if selection is None else selection.ids,
            selected_scores=() if selection is None else selection.scores,
            wanted=wanted,
            unwanted=unwanted,
            regime=None if scores is None else scores.regime,
            model=fingerprint(model),
            training=Cost(
                seconds=training.seconds,
                peak_bytes=training.peak_bytes,
                epochs=self.config.training.epochs,
            ),
            scoring=None
            if scores is None
            else Cost(seconds=scoring.seconds, peak_bytes=scoring.peak_bytes),
            environment=describe_environment(self.device),
        )


def _expected_end(records: Sequence[Record], k: int) -> float:
    """Return when the next cycle would end, judging by the last one and the labels it adds."""
    if not records:
        return time.time()
    last = records[-1]
    spent = last.training.seconds * (1 + k / last.labelled)
    return time.time() + spent + (0 if last.scoring is None else last.scoring.seconds)


def _labelled(pool: Pool) -> tuple[list[int], Tensor]:
    """Return the labelled rows in the order of the pool, and their labels."""
    ids, labels = pool.labelled()
    return [int(i) for i in ids], torch.tensor(labels, dtype=torch.long)


def _extremes(scores: Scores | None) -> tuple[tuple[Wish, ...], tuple[Wish, ...]]:
    if scores is None:
        return (), ()

    def wishes(values: object) -> tuple[Wish, ...]:
        best = top_k(values, scores.ids, _SHOWN, scores.seed)  # type: ignore[arg-type]
        return tuple(Wish(id=scores.ids[i], score=float(scores.values[i])) for i in best)

    return wishes(scores.values), wishes(-scores.values)


def _make_task(config: Config, data: ImageSet) -> Task:
    options = {"classes": len(data.classes), **config.task.options}
    return from_table(TASKS.get(config.task.name), options, f"task {config.task.name!r}")


def _check_budget(config: Config, data: ImageSet) -> None:
    loop = config.loop
    budget = loop.initial + loop.k * (loop.cycles - 1)
    if budget > len(data.ids):
        raise ConfigError(
            f"[loop] asks for {budget} labels, but {data.name} has {len(data.ids)} samples: "
            "lower initial, k or cycles"
        )

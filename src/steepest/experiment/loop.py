"""The active-learning loop: train, score, choose, label, again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from steepest.datasets import Images, ImageSet
from steepest.datasets.identity import identify
from steepest.datasets.limit import take
from steepest.datasets.sealed import Labels
from steepest.devices import choose_device
from steepest.errors import InputError, ModelError
from steepest.experiment.config import Config
from steepest.experiment.environment import describe_environment
from steepest.experiment.folder import RunFolder
from steepest.experiment.measure import Measurement, measured
from steepest.experiment.parts import check_budget, load_data, make_task
from steepest.experiment.record import Cost, Record, Wish
from steepest.experiment.shared import SharedCycle, shared_key
from steepest.experiment.start import fresh_model, starting_model
from steepest.experiment.views import pool_view, scored_at_once
from steepest.labelling import Labeller, OracleLabeller
from steepest.labelling.apply import apply
from steepest.models.fingerprint import fingerprint
from steepest.pool import Pool, State
from steepest.progress import Progress, SilentProgress
from steepest.scoring import Scores, Selection, score
from steepest.scoring.select import choose
from steepest.seeds import SampleId, derive
from steepest.selection import random_subset, top_k
from steepest.strategies import create
from steepest.tasks.base import Metric
from steepest.training import Checkpoint, FitResult, evaluate, fit, predict_logits

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
        shared: A file through which runs of a seed share the training of the first cycle.

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
        shared: Path | None = None,
    ) -> None:
        self.config = config
        self.out = Path(out)
        self.device = choose_device(config.device)
        self.data = load_data(config) if data is None else data
        self.strategy = create(config.strategy.name, config.strategy.options)
        self.task = make_task(config, self.data)
        self._labeller = labeller
        self._shared = shared
        self._progress = progress or SilentProgress()
        check_budget(config, self.data)
        self._check_model()

    def run(self, deadline: float | None = None) -> list[Record]:
        """Run all cycles that are not on record yet, and return the records of all.

        Args:
            deadline: In the seconds of ``time.time()``; a cycle that would probably end later is
                not begun. The next call goes on from there.
        """
        folder = RunFolder(self.out, self.config, identify(self.data))
        threads = torch.get_num_threads()
        torch.set_num_threads(min(self.config.threads, os.cpu_count() or 1))
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
            training = self._train(model, pool, cycle, folder.checkpoint())
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

    def _train(self, model: nn.Module, pool: Pool, cycle: int, checkpoint: Checkpoint) -> Cost:
        """Train a model, or give it the weights of the same training in another run."""
        shared: SharedCycle | None = None
        if cycle == 0 and self._shared is not None:
            key = shared_key(self.config, self.data, model, pool, self.device)
            shared = SharedCycle(self._shared, key)
            if cost := shared.load(model, self.device):
                return cost
        with measured(self.device) as spent:
            result = self._fit(model, pool, cycle, checkpoint)
        cost = Cost(
            seconds=result.seconds, peak_bytes=spent.peak_bytes, epochs=self.config.training.epochs
        )
        if shared is not None:
            shared.save(model, cost)
        return cost

    def _fit(self, model: nn.Module, pool: Pool, cycle: int, checkpoint: Checkpoint) -> FitResult:
        images, targets = self._labelled(pool)
        return fit(
            model,
            self.task,
            images,
            targets,
            self.config.training,
            mean=self.data.mean,
            std=self.data.std,
            augmentation=self.data.augmentation,
            seed=derive(self.config.seed, "training", cycle),
            device=self.device,
            progress=self._progress,
            checkpoint=checkpoint,
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
            batch_size=scored_at_once(self.data, self.device),
            progress=self._progress,
        )

    def _labelled(self, pool: Pool) -> tuple[Images, Labels]:
        """Return the labelled samples in the order of the pool, and what is known of them."""
        ids, labels = pool.labelled()
        rows = [int(i) for i in ids]
        images = take(self.data.train_images, rows)
        if self.data.train_labels.dense:
            return images, self.data.train_labels.unseal_rows(rows, "maps of labelled samples")
        return images, self.task.targets(labels)

    def _metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        mean, std = self.data.mean, self.data.std
        return evaluate(model, self.task, images, labels, mean=mean, std=std, device=self.device)

    def _train_metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        try:
            return self._metrics(model, images, labels)
        except InputError:
            return {}  # Maps without a single class, or samples without any label.

    def _check_model(self) -> None:
        """Let a fresh model look at two samples, so that misfits show before anything begins."""
        data, classes = self.data, len(self.data.classes)
        model = fresh_model(self.config.model, data, self.config.seed)
        images = data.train_images[:2]
        logits = predict_logits(model, images, mean=data.mean, std=data.std, device=self.device)
        if logits.shape[1] != classes:
            raise ModelError(
                f"the model has {logits.shape[1]} outputs, but {data.name} has {classes} classes: "
                "give the model that many outputs"
            )
        wanted = images.shape[2:] if data.train_labels.dense else ()
        if logits.shape[2:] != wanted:
            said = "one label for each pixel" if wanted else "one label for each sample"
            raise ModelError(
                f"the model gives logits {list(logits.shape)} for images {list(images.shape)}, but "
                f"{data.name} has {said}: choose a model for that"
            )
        # A strategy that cannot score this task says so now, and not after the first training.
        pair = pool_view(data).part(range(min(2, len(data.ids))))
        score(model, pair, self.strategy, task=self.task, progress=False)

    def _record(
        self,
        cycle: int,
        model: nn.Module,
        pool: Pool,
        scores: Scores | None,
        selection: Selection | None,
        training: Cost,
        scoring: Measurement,
    ) -> Record:
        images, targets = self._labelled(pool)
        wanted, unwanted = _extremes(scores)
        return Record(
            cycle=cycle,
            strategy=self.strategy.name,
            options=self.strategy.options(),
            seed=self.config.seed,
            labelled=len(images),
            unlabelled=pool.counts()[State.UNLABELLED],
            subset=0 if scores is None else len(scores),
            metrics=self._metrics(model, self.data.test_images, self.data.test_labels),
            train_metrics=self._train_metrics(model, images, targets),
            selected=() if selection is None else selection.ids,
            selected_scores=() if selection is None else selection.scores,
            wanted=wanted,
            unwanted=unwanted,
            regime=None if scores is None else scores.regime,
            model=fingerprint(model),
            training=training,
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


def _extremes(scores: Scores | None) -> tuple[tuple[Wish, ...], tuple[Wish, ...]]:
    if scores is None:
        return (), ()

    def wishes(values: object) -> tuple[Wish, ...]:
        best = top_k(values, scores.ids, _SHOWN, scores.seed)  # type: ignore[arg-type]
        return tuple(Wish(id=scores.ids[i], score=float(scores.values[i])) for i in best)

    return wishes(scores.values), wishes(-scores.values)

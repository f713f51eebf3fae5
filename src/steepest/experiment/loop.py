"""The active-learning loop: train, score, choose, label, again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from steepest.core.devices import choose_device, usable_cores
from steepest.core.memory import measured
from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import SampleId, derive
from steepest.data import Images, ImageSet
from steepest.data.alterations import take
from steepest.data.identity import identify
from steepest.data.sealed import Labels, readings_recorded
from steepest.data.streamed import Streamed
from steepest.errors import InputError
from steepest.experiment.asking import ask, check_begun, check_labeller
from steepest.experiment.choosing import SHOWN, check_longer, choose_after_the_end, fields_of
from steepest.experiment.committee_training import SideBySide
from steepest.experiment.company import Company
from steepest.experiment.config import Config
from steepest.experiment.divergence import divergence_named
from steepest.experiment.environment import describe_environment
from steepest.experiment.first_look import check_fit
from steepest.experiment.folder import RunFolder
from steepest.experiment.own_modules import (
    CODE,
    changed_modules,
    code_of,
    warn_of_changed_code,
)
from steepest.experiment.parts import check_budget, load_data, make_task, pool_view, scored_at_once
from steepest.experiment.protocol import initial_ids, selection_seed
from steepest.experiment.record import LABELLED_MAPS, Cost, Record, expected_end
from steepest.experiment.shared_first_cycle import SharedCycle, shared_key
from steepest.experiment.start import fresh_model, starting_model
from steepest.labelling import Labeller, OracleLabeller
from steepest.modules.fingerprint import fingerprint
from steepest.pool import Pool, State
from steepest.selecting.options import SelectionOptions
from steepest.selecting.select import Outcome, check_k, choose_from
from steepest.strategies import Needs, create
from steepest.tasks.base import Metric
from steepest.training import Checkpoint, Extra, FitResult, evaluate, fit


class Experiment:
    """One run of the active-learning loop, resumable at every moment.

    Args:
        config: What to run.
        out: The run's folder. The same folder and configuration go on where they stopped.
        data: The data set, if it is loaded already.
        labeller: Who answers, for what is asked alone; by default the data set's own labels.
        progress: Told of trainings and scorings.
        shared: A file through which runs of a seed share the training of the first cycle.
        member_jobs: Members of a committee that are trained side by side, in processes of their
            own. None stands for as many as a GPU has room for, and for one on a CPU.

    Raises:
        ConfigError: If the budget is more than the data set holds.
        InputError: If the labeller is none, or the number of members is below 1.
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
        member_jobs: int | None = None,
    ) -> None:
        if labeller is not None:
            check_labeller(labeller)
        self.side_by_side = SideBySide(member_jobs)
        self.config = config
        self.out = Path(out)
        self.device = choose_device(config.device)
        self.data = load_data(config) if data is None else data
        self.strategy = create(config.strategy.name, config.strategy.options)
        self.task = make_task(config, self.data)
        self._labeller = labeller
        self._shared = shared
        self.progress = progress or SilentProgress()
        check_budget(config, self.data)
        check_fit(self)
        self._code = {CODE: code} if (code := code_of(config)) else {}
        warn_of_changed_code(str(self.out), changed_modules(self.out, config))

    def run(self, deadline: float | None = None, until: int | None = None) -> list[Record]:
        """Run all cycles that are not on record yet, and return the records of all.

        Args:
            deadline: In the seconds of ``time.time()``; a cycle that would probably end later is
                not begun. The next call goes on from there.
            until: Stop when so many cycles, 0 or more, are on record; None stands for all.
        """
        if until is not None and until < 0:
            raise InputError(f"until is {until}: give 0 or more cycles, or None for all")
        check_longer(self, self.out)
        folder = RunFolder(self.out, self.config, identify(self.data))
        threads = torch.get_num_threads()
        torch.set_num_threads(min(self.config.threads, usable_cores()))
        try:
            known = self._labeller is None
            with folder.open_pool(self.data.ids, known=known) as pool, self.side_by_side:
                self._cycles(folder, pool, deadline, until)
            return list(folder.records)
        finally:
            torch.set_num_threads(threads)
            folder.close()

    def _cycles(
        self, folder: RunFolder, pool: Pool, deadline: float | None, until: int | None
    ) -> None:
        """Algorithm 1: train T on L; score a subset of U; label the K best; repeat."""
        loop = self.config.loop
        labeller = self._labeller or OracleLabeller(self.data.train_labels)
        self._replay(folder, pool, labeller)
        check_begun(pool, labeller)
        if chosen := choose_after_the_end(self, folder, pool):
            ask(self, pool, labeller, chosen, cycle=len(folder.records))
        model: nn.Module | None = None
        stop = loop.cycles if until is None else min(until, loop.cycles)
        for cycle in range(len(folder.records), stop):
            last = cycle + 1 == loop.cycles
            if deadline is not None and expected_end(folder.records, loop.k, last=last) > deadline:
                return
            model = starting_model(self, folder, cycle, previous=model)
            with readings_recorded() as purposes:
                record = self._cycle(folder, pool, model, cycle, last=last)
            record = replace(record, purposes=tuple(dict.fromkeys(purposes)))
            folder.commit(record, keep_all_weights=loop.keep_weights == "all")
            ask(self, pool, labeller, record.selected, cycle=cycle + 1)

    def _cycle(
        self, folder: RunFolder, pool: Pool, model: nn.Module, cycle: int, *, last: bool
    ) -> Record:
        """Train, test and choose; return what happened once the weights are on disk."""
        company = Company(self, folder, cycle, model)
        with divergence_named(self.config.training.lr, certain=True):
            training = self._train(model, pool, cycle, folder.checkpoint(), company.extra)
            # Before anything is chosen: a strategy would blame a sample.
            metrics = self._metrics(model, self.data.test_images, self.data.test_labels)
            members = None if last else company.train_members(pool, training)
        outcome = None if last else self.select(model, pool, cycle, company)
        folder.save_model(model, cycle)
        kept = company.save()
        return self._record(cycle, model, pool, metrics, outcome, training, members, kept)

    def _replay(self, folder: RunFolder, pool: Pool, labeller: Labeller) -> None:
        """Bring the pool to where the records are: labels that are missing, or too many."""
        first = initial_ids(self.data.ids, self.config.loop.initial, self.config.seed)
        batches = [first, *(record.selected for record in folder.records)]
        bought = {sample for batch in batches for sample in batch}
        extra = [sample for sample in pool.taken() if sample not in bought]
        pool.unlabel(extra, cycle=len(folder.records), who="resume")
        for cycle, batch in enumerate(batches):
            ask(self, pool, labeller, batch, cycle=cycle)

    def _train(
        self,
        model: nn.Module,
        pool: Pool,
        cycle: int,
        checkpoint: Checkpoint,
        extra: Extra | None,
    ) -> Cost:
        """Train a model, or give it the weights of the same training in another run."""
        shared: SharedCycle | None = None
        if cycle == 0 and self._shared is not None and extra is None:
            key = shared_key(self.config, self.data, model, pool, self.device)
            shared = SharedCycle(self._shared, key)
            if cost := shared.load(model, self.device):
                return cost
        with measured(self.device) as spent:
            result = self.fit(model, pool, checkpoint, ("training", cycle), extra)
        cost = Cost(
            seconds=result.seconds, peak_bytes=spent.peak_bytes, epochs=self.config.training.epochs
        )
        if shared is not None:
            shared.save(model, cost)
        return cost

    def fit(
        self,
        model: nn.Module,
        pool: Pool,
        checkpoint: Checkpoint,
        purpose: tuple[str | int, ...],
        extra: Extra | None = None,
    ) -> FitResult:
        """Train a model on what is labelled, by the recipe.

        Args:
            model: Trained in place.
            pool: Says what is labelled.
            checkpoint: Where the state is kept.
            purpose: What this training is for: it decides order, augmentation and dropout.
            extra: What is trained along.
        """
        return fit(
            model,
            **self.fitting(pool),
            seed=derive(self.config.seed, *purpose),
            progress=self.progress,
            checkpoint=checkpoint,
            extra=extra,
        )

    def fitting(self, pool: Pool) -> dict[str, Any]:
        """Return what ``fit`` takes in this experiment, whatever model is trained."""
        images, targets = self._labelled(pool)
        return {
            "task": self.task,
            "images": images,
            "labels": targets,
            "recipe": self.config.training,
            "mean": self.data.mean,
            "std": self.data.std,
            "augmentation": self.data.augmentation,
            "device": self.device,
        }

    def select(self, model: nn.Module, pool: Pool, cycle: int, company: Company) -> Outcome:
        """Choose by a cycle's model from what is not labelled."""
        how = SelectionOptions(
            labelled=pool.taken(),
            subset=self.config.loop.candidates,
            seed=selection_seed(self.config.seed, cycle),
            task=self.task,
            batch_size=scored_at_once(self.data, self.device),
            progress=self.progress,
            support=company.support(self._targets(pool)),
        )
        samples = pool_view(self.data)
        k = check_k(self.config.loop.k, len(samples) - len(pool.taken()), how.subset)
        with divergence_named(self.config.training.lr, certain=False):
            return choose_from(model, samples, k, self.strategy, how, lowest=SHOWN)

    def _targets(self, pool: Pool) -> Mapping[SampleId, Any]:
        """Return what is learnt from of each labelled sample, if the strategy asks for it."""
        if Needs.TARGETS not in self.strategy.needs:
            return {}
        ids, _ = pool.labelled()
        _, targets = self._labelled(pool)
        rows = targets[:] if isinstance(targets, Streamed) else targets
        return dict(zip(ids, rows, strict=True))

    def _labelled(self, pool: Pool) -> tuple[Images, Labels]:
        """Return the labelled samples in the order of the pool, and what is known of them."""
        ids, labels = pool.labelled()
        rows = [int(i) for i in ids]
        images = take(self.data.train_images, rows)
        if self.data.train_labels.dense:
            return images, self.data.train_labels.unseal_rows(rows, LABELLED_MAPS)
        return images, self.task.targets(labels)

    def _metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        mean, std = self.data.mean, self.data.std
        return evaluate(model, self.task, images, labels, mean=mean, std=std, device=self.device)

    def _train_metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        try:
            return self._metrics(model, images, labels)
        except InputError:
            return {}  # Maps without a single class, or samples without any label.

    def fresh_model(self, seed: int) -> nn.Module:
        """Return a model that fits the data and the strategy, with first weights by a seed."""
        return fresh_model(self.config.model, self.data, seed, self.strategy.model_options())

    def _record(
        self,
        cycle: int,
        model: nn.Module,
        pool: Pool,
        metrics: Mapping[str, Metric],
        outcome: Outcome | None,
        training: Cost,
        members: Cost | None,
        company: Mapping[str, str],
    ) -> Record:
        images, targets = self._labelled(pool)
        return Record(
            cycle=cycle,
            strategy=self.strategy.name,
            options=self.strategy.options(),
            seed=self.config.seed,
            labelled=len(images),
            unlabelled=pool.counts()[State.UNLABELLED],
            metrics=metrics,
            train_metrics=self._train_metrics(model, images, targets),
            model=fingerprint(model),
            company=company,
            training=training,
            environment={**describe_environment(self.device), **self._code},
            **fields_of(outcome, members),
        )

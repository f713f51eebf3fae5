"""The active-learning loop: train, score, choose, label, again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from steepest.core.devices import usable_cores
from steepest.core.progress import Progress
from steepest.data import ImageSet
from steepest.data.sealed import readings_recorded
from steepest.errors import InputError
from steepest.experiment.auxiliary_models import AuxiliaryModels
from steepest.experiment.committee_training import SideBySide
from steepest.experiment.compatibility import check_compatibility
from steepest.experiment.config import Config
from steepest.experiment.environment import changed_modules, warn_of_changed_code
from steepest.experiment.folder import RunFolder
from steepest.experiment.label_requests import ask, check_begun, check_labeller
from steepest.experiment.record import Cost, Record, expected_end
from steepest.experiment.seeding import initial_ids
from steepest.experiment.selection import (
    check_longer,
    choose_after_the_end,
    fields_of,
    select_samples,
)
from steepest.experiment.setup import Setup, divergence_named
from steepest.experiment.shared_first_cycle import train_cycle
from steepest.labelling import Labeller, OracleLabeller
from steepest.modules.fingerprint import fingerprint
from steepest.pool import Pool, State


class Experiment:
    """One run of the active-learning loop, resumable at every moment.

    Args:
        config: The configuration to run.
        out: The run's folder. The same folder and configuration resume where they stopped.
        data: The data set, if it is loaded already.
        labeller: Answers the queries; by default with the data set's own labels.
        progress: Updated during trainings and scorings.
        shared: A file through which runs of a seed share the training of the first cycle.
        member_jobs: Members of a committee that are trained side by side, in processes of their
            own. None stands for as many as a GPU has room for, and for one on a CPU.
        on_record: Called with each record once it is on disk.

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
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        if labeller is not None:
            check_labeller(labeller)
        self._side_by_side = SideBySide(member_jobs)
        self.setup = Setup(config, data, progress)
        self.config, self.data, self.task = config, self.setup.data, self.setup.task
        self.out = Path(out)
        self._labeller = labeller
        self._shared = shared
        self._on_record = on_record
        check_compatibility(self.setup)
        self.setup.note_code()
        warn_of_changed_code(str(self.out), changed_modules(self.out, config))

    def run(self, deadline: float | None = None, until: int | None = None) -> list[Record]:
        """Run all cycles that are not on record yet, and return the records of all.

        Args:
            deadline: In the seconds of ``time.time()``; a cycle that would probably end later is
                not begun. The next call resumes from there.
            until: Stop when so many cycles, 0 or more, are on record; None stands for all.
        """
        if until is not None and until < 0:
            raise InputError(f"until is {until}: give 0 or more cycles, or None for all")
        check_longer(self.setup, self.out)
        folder = RunFolder(self.out, self.config, self.setup.identity())
        threads = torch.get_num_threads()
        torch.set_num_threads(min(self.config.threads, usable_cores()))
        try:
            known = self._labeller is None
            with folder.open_pool(self.data.ids, known=known) as pool, self._side_by_side:
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
        if chosen := choose_after_the_end(self.setup, folder, pool):
            ask(self.setup, pool, labeller, chosen, cycle=len(folder.records))
        model: nn.Module | None = None
        stop = loop.cycles if until is None else min(until, loop.cycles)
        for cycle in range(len(folder.records), stop):
            last = cycle + 1 == loop.cycles
            if deadline is not None and expected_end(folder.records, loop.k, last=last) > deadline:
                return
            model = self.setup.starting_model(folder, cycle, previous=model)
            with readings_recorded() as purposes:
                record = self._cycle(folder, pool, model, cycle, last=last)
            record = replace(record, purposes=tuple(dict.fromkeys(purposes)))
            folder.commit(record, keep_all_weights=loop.keep_weights == "all")
            if self._on_record is not None:
                self._on_record(record)
            ask(self.setup, pool, labeller, record.selected, cycle=cycle + 1)

    def _cycle(
        self, folder: RunFolder, pool: Pool, model: nn.Module, cycle: int, *, last: bool
    ) -> Record:
        """Train, test and choose; return the record once the weights are on disk."""
        setup, data = self.setup, self.data
        models = AuxiliaryModels(setup, folder, cycle, model)
        with divergence_named(self.config.training.lr, certain=True):
            checkpoint, extra = folder.checkpoint(), models.extra
            training = train_cycle(setup, model, pool, cycle, checkpoint, extra, self._shared)
            # Before anything is chosen: a strategy would blame a sample.
            metrics = setup.metrics(model, data.test_images, data.test_labels)
            members = None if last else models.train_members(pool, training, self._side_by_side)
        outcome = None if last else select_samples(setup, model, pool, cycle, models)
        folder.save_model(model, cycle)
        kept = models.save()
        choice = fields_of(outcome, members)
        return self._record(cycle, model, pool, metrics, training, kept, choice)

    def _replay(self, folder: RunFolder, pool: Pool, labeller: Labeller) -> None:
        """Bring the pool to where the records are: labels that are missing, or too many."""
        first = initial_ids(self.data.ids, self.config.loop.initial, self.config.seed)
        batches = [first, *(record.selected for record in folder.records)]
        bought = {sample for batch in batches for sample in batch}
        extra = [sample for sample in pool.taken() if sample not in bought]
        pool.unlabel(extra, cycle=len(folder.records), who="resume")
        for cycle, batch in enumerate(batches):
            ask(self.setup, pool, labeller, batch, cycle=cycle)

    def _record(
        self,
        cycle: int,
        model: nn.Module,
        pool: Pool,
        metrics: Mapping[str, Any],
        training: Cost,
        company: Mapping[str, str],
        choice: Mapping[str, Any],
    ) -> Record:
        setup = self.setup
        images, targets = setup.labelled(pool)
        return Record(
            cycle=cycle,
            strategy=setup.strategy.name,
            options=setup.strategy.options(),
            seed=self.config.seed,
            labelled=len(images),
            unlabelled=pool.counts()[State.UNLABELLED],
            metrics=metrics,
            train_metrics=setup.train_metrics(model, images, targets),
            model=fingerprint(model),
            company=company,
            training=training,
            environment=setup.environment(),
            **choice,
        )

"""Inputs of artefacts: complete runs with their models, data and choices."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.files import write_atomically
from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import SampleId, random_subset
from steepest.data import ImageSet
from steepest.errors import InputError, RunFolderError, SteepestError
from steepest.experiment.building import (
    fresh_model,
    load_data,
    make_task,
    pool_view,
    scored_at_once,
)
from steepest.experiment.config import Config, parse_setting
from steepest.experiment.seeding import extra_seed, initial_ids, selection_seed
from steepest.modules.weights import load_weights
from steepest.paper.finished_runs import FinishedRun, StoredRun, find_run, stored_runs
from steepest.paper.level import Level
from steepest.paper.needed_runs import NEEDS, Need
from steepest.paper.scenes import scenes_in, write_scenes
from steepest.selecting.choosing import choose_from
from steepest.selecting.options import SelectionOptions
from steepest.selecting.samples import Samples
from steepest.strategies import Needs, Strategy, Support, create
from steepest.tasks.base import Task
from steepest.training.augment import normalise

_FORM = 1
"""Counts up when analyses begin to keep something else under the same keys."""


class OutOfTime(SteepestError):  # noqa: N818 - no failure, but a reason to stop
    """The time that was given is up; the same command resumes from here."""


@dataclass
class Workspace:
    """Everything that artefacts share.

    Attributes:
        level: How large everything is.
        out: The folder of results; runs are made in its folder ``runs``.
        sources: Folders in which complete runs are looked for.
        progress: Updated during long work.
        deadline: In the seconds of ``time.time()``; nothing long is begun later.
        only: The only strategies that are looked at; none named means all.
        problems: Why a run could not be made, by experiment and strategy.
        used: Runs that were requested since this was last emptied.
    """

    level: Level
    out: Path
    sources: Sequence[Path] = ()
    progress: Progress = field(default_factory=SilentProgress)
    deadline: float | None = None
    only: Sequence[str] = ()
    problems: dict[tuple[str, str], str] = field(default_factory=dict)
    used: dict[str, FinishedRun] = field(default_factory=dict)
    _data: dict[str, ImageSet] = field(default_factory=dict, repr=False)
    _common: dict[Path, Config] = field(default_factory=dict, repr=False)
    _wanted: dict[tuple[Path, str, int], Config] = field(default_factory=dict, repr=False)

    seed = 0
    """Seeds whatever an analysis draws."""

    @property
    def device(self) -> torch.device:
        """Device to compute on."""
        words = {".".join(key): value for key, value in map(parse_setting, self.level.changes)}
        return choose_device(str(words.get("device", "auto")))

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return self.deadline is not None and time.time() >= self.deadline

    @contextmanager
    def as_far_as_time_allows(self) -> Iterator[list[str]]:
        """Do long work step by step; when the time is up, finished steps are kept.

        Yields:
            A list that then holds a sentence about it, for ``Findings.missing``.
        """
        words: list[str] = []
        try:
            yield words
        except OutOfTime as error:
            words.append(str(error))

    def check_time(self) -> None:
        """Stop if the time that was given is up.

        Raises:
            OutOfTime: Then.
        """
        if self.out_of_time:
            raise OutOfTime("the time is up: run the same command again to go on")

    def check(self) -> None:
        """Check the arguments before anything is written.

        Raises:
            InputError: If a source is no folder, or the device is not there.
        """
        _ = self.device, self._stored

    def runs(self, *needs: Need) -> tuple[FinishedRun, ...]:
        """Return the complete runs of needs, by strategy and seed."""
        found = [
            self.find(need, strategy, seed)
            for need in needs
            for strategy in self.strategies(need)
            for seed in self.level.seeds_of(need.setting, need.seeds)
        ]
        complete = [run for run in found if run is not None]
        self.used.update((run.key, run) for run in complete)
        return tuple(complete)

    def strategies(self, need: Need) -> tuple[str, ...]:
        """Return the strategies of a need that were requested."""
        return tuple(n for n in need.strategies if not self.only or n in self.only)

    def problem_of(self, group: str, strategy: str) -> str:
        """Return why a strategy's runs of a comparison could not be made; empty if they could."""
        return self.problems.get((group, "")) or self.problems.get((group, strategy)) or ""

    def find(self, need: Need, strategy: str, seed: int) -> FinishedRun | None:
        """Return one complete run of a need; None if it is not there."""
        wanted = self.wanted(need, strategy, seed)
        stored = [*self._own(need, strategy, seed), *self._stored]
        return find_run(need.setting, strategy, wanted, stored, weights=need.weights)

    def wanted(self, need: Need, strategy: str, seed: int) -> Config:
        """Return the configuration of one run of a need."""
        key = (self.comparison(need), strategy, seed)
        if key not in self._wanted:
            variant = self.level.variant(strategy, need.setting)
            self._wanted[key] = variant.config(self.common(need), seed)
        return self._wanted[key]

    def common(self, need: Need) -> Config:
        """Return the common configuration of a need's runs."""
        key = self.comparison(need)
        if key not in self._common:
            kept = self._keeps_weights(self.level.resolve(need.setting))
            self._common[key] = self.level.config(
                need.setting, need.init, weights=kept, work=self.out / "work"
            )
        return self._common[key]

    def comparison(self, need: Need) -> Path:
        """Return the folder in which a need's runs are made."""
        name = self.level.resolve(need.setting)
        return self.out / "runs" / (name if need.init is None else f"{name}-{need.init}")

    def data(self, run: FinishedRun) -> ImageSet:
        """Return a run's data set."""
        key = json.dumps(run.config.to_table()["data"], sort_keys=True)
        if key not in self._data:
            self._data.clear()  # One at a time: they are large.
            self.write_own_data(run.config)
            self._data[key] = load_data(run.config)
        return self._data[key]

    def write_own_data(self, config: Config) -> None:
        """Write the data that a configuration takes from this folder, if it takes any."""
        scenes = scenes_in(self.out / "work")
        if config.data.options.get("path") == str(scenes):
            write_scenes(scenes)

    def task(self, run: FinishedRun) -> Task:
        """Return a run's task."""
        return make_task(run.config, self.data(run))

    def samples(self, run: FinishedRun) -> Samples:
        """Return a run's training samples as models take them, not augmented."""
        return pool_view(self.data(run))

    def model(self, run: FinishedRun, cycle: int) -> nn.Module:
        """Return the model as a cycle's training left it, for evaluation; -1 is the last cycle.

        Raises:
            RunFolderError: If the weights were not kept.
        """
        cycle = cycle % run.cycles
        path = run.weights(cycle)
        if not path.is_file():
            raise RunFolderError(
                f"{run.folder}: the weights of cycle {cycle} were not kept; run it again with "
                "loop.keep_weights=all"
            )
        strategy = create(run.config.strategy.name, run.config.strategy.options)
        part = replace(run.config.model, weights=None)  # What it began with is overwritten at once.
        model = fresh_model(part, self.data(run), run.seed, strategy.model_options())
        try:
            load_weights(model, path)
        except SteepestError as error:
            raise RunFolderError(
                f"{error}: delete {run.folder}, and the same command makes that run again"
            ) from error
        return model.to(self.device).eval()

    def labelled(self, run: FinishedRun, cycle: int) -> list[SampleId]:
        """Return the training data of a cycle's model, in the order of labelling."""
        first = initial_ids(self.data(run).ids, run.config.loop.initial, run.seed)
        bought = [s for record in run.records[: cycle % run.cycles] for s in record.selected]
        return [*first, *bought]

    def unlabelled(self, run: FinishedRun, cycle: int) -> list[SampleId]:
        """Return all samples that had no label while a cycle's model was trained, in pool order."""
        taken = set(self.labelled(run, cycle))
        return [i for i in self.data(run).ids if i not in taken]

    def candidates(self, run: FinishedRun, cycle: int) -> list[SampleId]:
        """Return the random subset that is scored after a cycle's training, in pool order."""
        free = self.unlabelled(run, cycle)
        seed = selection_seed(run.seed, cycle % run.cycles)
        return [free[int(r)] for r in random_subset(free, run.config.loop.candidates, seed)]

    def choice_after(self, run: FinishedRun, cycle: int) -> tuple[SampleId, ...] | None:
        """Return the picks of a cycle, or those that the last cycle would make.

        Returns:
            Ids, best first; None where that takes models which the last cycle did not train.
        """
        cycle = cycle % run.cycles
        if cycle + 1 < run.cycles:
            return run.records[cycle].selected
        chosen = self.remember(f"choices/{run.key}", lambda: choose_after_last(self, run))
        return None if chosen is None else tuple(chosen)

    def labels(self, run: FinishedRun, ids: Sequence[SampleId], purpose: str) -> Tensor:
        """Return true labels [N], for an analysis with a stated purpose."""
        rows = [int(i) for i in ids]
        labels = self.data(run).train_labels.unseal_rows(rows, purpose)
        return labels if isinstance(labels, Tensor) else labels[:]

    def folder(self, key: str) -> Path:
        """Return a folder for whatever an analysis keeps."""
        if ".." in Path(key).parts or Path(key).is_absolute():
            raise InputError(f"{key!r} leads out of the folder for results")
        path = self.out / "work" / key
        path.mkdir(parents=True, exist_ok=True)
        return path

    def remember(self, key: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return the result stored under a key, or compute and store it.

        Args:
            key: Such as ``"table-1/cifar10/seed-0/cycle-3"``.
            make: Returns something that is ready for JSON.

        Raises:
            OutOfTime: If it would have to be made, and the time is up.
        """
        path = self.folder(str(Path(key).parent)) / f"{Path(key).name}.json"
        if found := recall(path):
            return found[0]
        self.check_time()
        return keep(path, make())

    @cached_property
    def _stored(self) -> list[StoredRun]:
        return stored_runs(self.sources)

    def _own(self, need: Need, strategy: str, seed: int) -> list[StoredRun]:
        folder = self.comparison(need) / "runs" / strategy / f"seed-{seed}"
        return stored_runs([folder]) if folder.is_dir() else []

    def _keeps_weights(self, setting: str) -> bool:
        """Say whether any artefact needs the weights, so that all can share the same runs."""
        return any(
            need.weights and self.level.resolve(need.setting) == setting
            for name in NEEDS.names()
            for need in NEEDS.get(name)()
            if need.setting in self.level.settings
        )


def choose_after_last(work: Workspace, run: FinishedRun) -> list[SampleId] | None:
    """Let a run's strategy choose once more, as the loop would in one more cycle.

    Returns:
        Ids, best first; None if the strategy takes models that the last cycle did not train.
    """
    cycle, config = run.cycles - 1, run.config
    strategy = create(config.strategy.name, config.strategy.options)
    if strategy.members > 1:
        return None
    data, model = work.data(run), work.model(run, cycle)
    labelled = work.labelled(run, cycle)
    how = SelectionOptions(
        labelled=labelled,
        subset=config.loop.candidates,
        seed=selection_seed(run.seed, cycle),
        task=work.task(run),
        batch_size=scored_at_once(data, work.device),
        progress=work.progress,
        support=_support(work, run, strategy, model, labelled),
    )
    k = min(config.loop.k, len(data.ids) - len(labelled))
    return list(choose_from(model, work.samples(run), k, strategy, how).selection.ids)


def _support(
    work: Workspace,
    run: FinishedRun,
    strategy: Strategy,
    model: nn.Module,
    labelled: list[SampleId],
) -> Support:
    targets: dict[SampleId, Any] = {}
    if Needs.TARGETS in strategy.needs:
        rows = work.labels(run, labelled, "what the last model was trained on")
        targets = dict(zip(labelled, rows, strict=True))
    previous = untrained = None
    if Needs.PREVIOUS in strategy.needs and run.cycles > 1:
        previous = work.model(run, run.cycles - 2)
    elif Needs.PREVIOUS in strategy.needs:
        options = strategy.model_options()
        untrained = fresh_model(run.config.model, work.data(run), run.seed, options)
        untrained.to(work.device)
    return Support(
        targets=targets,
        previous=previous,
        untrained=untrained,
        extra=_extra(work, run, strategy, model),
    )


def _extra(
    work: Workspace, run: FinishedRun, strategy: Strategy, model: nn.Module
) -> nn.Module | None:
    """Return the modules trained along with the model in the last cycle."""
    data, last = work.data(run), run.cycles - 1
    few = normalise(data.train_images[:2], data.mean, data.std).to(work.device)
    extra = strategy.make_extra(model, few, extra_seed(run.seed, last))
    if extra is not None:
        load_weights(extra, run.weights(last, "extra"))
        extra.to(work.device).eval()
    return extra


def keep(path: Path, value: Any) -> Any:  # noqa: ANN401
    """Write something that is ready for JSON, and return it as it will be read."""
    text = json.dumps(value, allow_nan=False)
    write_atomically(path, json.dumps({"form": _FORM, "digest": _digest(text), "value": value}))
    return json.loads(text)


def recall(path: Path) -> tuple[Any] | None:
    """Return the stored contents in a tuple of one; None if missing or damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        value = stored["value"]
        same = stored["form"] == _FORM and stored["digest"] == _digest(json.dumps(value))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (value,) if same else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

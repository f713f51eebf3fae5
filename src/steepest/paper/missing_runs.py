"""Make the runs that artefacts need and that are not there yet."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from steepest.core.files import expand_home
from steepest.data.base import DATASETS, data_root
from steepest.data.catalogue import Source, catalogue, find_full_layout
from steepest.data.copy_checks import describe_first_step
from steepest.errors import InputError, RunFolderError, SteepestError
from steepest.experiment.building import load_data
from steepest.experiment.compare import run_missing
from steepest.experiment.comparison_runs import Comparing
from steepest.experiment.config import Config, Loop
from steepest.experiment.folder import count_records
from steepest.experiment.loop import Experiment
from steepest.experiment.variants import Variant, parse_variants
from steepest.paper.artefact import Artefact
from steepest.paper.needed_runs import Need
from steepest.paper.workspace import Workspace


@dataclass(frozen=True)
class Wanted:
    """One run that artefacts need."""

    need: Need
    strategy: str
    seed: int
    config: Config
    folder: Path
    complete: bool

    @property
    def group(self) -> str:
        """The comparison it belongs to."""
        return self.folder.parents[2].name


@dataclass(frozen=True)
class _Part(Comparing):
    """Some runs of a comparison: those that no one has made yet."""

    pairs: frozenset[tuple[str, int]] = frozenset()

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The strategies, without a baseline that was not requested."""
        return parse_variants(self.strategies)

    def includes(self, label: str, seed: int) -> bool:
        """Return whether no one has made this run yet."""
        return (label, seed) in self.pairs


def wanted_runs(work: Workspace, artefacts: Iterable[Artefact]) -> list[Wanted]:
    """Return every run that artefacts need, each once, in the order of the artefacts."""
    found: dict[Path, Wanted] = {}
    for need in (need for one in artefacts for need in one.needs() if not need.only_if_found):
        for seed in work.level.seeds_of(need.setting, need.seeds):
            for strategy in work.strategies(need):
                folder = work.comparison(need) / "runs" / strategy / f"seed-{seed}"
                known = found.get(folder)
                if known is not None and (known.need.weights or not need.weights):
                    continue
                config = work.wanted(need, strategy, seed)
                complete = work.find(need, strategy, seed) is not None
                found[folder] = Wanted(need, strategy, seed, config, folder, complete)
    return list(found.values())


def absent_files(config: Config) -> str:
    """Return the missing data or weights with the remedy, or nothing."""
    return _absent_data(config) or _absent_weights(config)


def _absent_weights(config: Config) -> str:
    path = config.model.weights
    if path is None or expand_home(path).is_file():
        return ""
    return f"the weights {path} are not here: check the path after model.weights="


def _absent_data(config: Config) -> str:
    name = config.data.name
    holding = next((known for known in catalogue() if known.name == name), None)
    if holding is None or holding.source in (Source.BUILT_IN, Source.SIMULATED):
        return ""
    root = data_root()
    if root is not None and find_full_layout(holding, root) is not None:
        return ""
    get = f"{describe_first_step()}run `steepest data get {name}`"
    return f"{holding.title} ({name}) is not here: {get}"


def make_missing(
    work: Workspace,
    artefacts: Sequence[Artefact],
    *,
    jobs: int | None = None,
    command: str = "",
) -> None:
    """Run what is missing, comparison by comparison, and remember the reasons for failures.

    Args:
        work: Says what is there; its ``problems`` are filled in.
        artefacts: The artefacts to make.
        jobs: Runs side by side; None picks a number for the machine.
        command: The command as typed, kept with the runs.

    Raises:
        InputError: If ``jobs`` is no number of jobs.
        RunFolderError: If a folder belongs to something else.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    groups: dict[str, list[Wanted]] = {}
    for run in wanted_runs(work, artefacts):
        if not run.complete:
            groups.setdefault(run.group, []).append(run)
    for group, runs in groups.items():
        if problem := absent_files(runs[0].config):
            work.problems[group, ""] = problem
        elif not work.out_of_time:  # Looking at data and models takes time too.
            fitting = _fitting(work, group, runs)
            if fitting:
                _make(work, group, fitting, jobs, command)


def _make(
    work: Workspace, group: str, runs: Sequence[Wanted], jobs: int | None, command: str
) -> None:
    names = dict.fromkeys(run.strategy for run in runs)
    part = _Part(
        config=work.common(runs[0].need),
        strategies=[work.level.variant(name, runs[0].need.setting) for name in names],
        seeds=list(dict.fromkeys(run.seed for run in runs)),
        out=work.comparison(runs[0].need),
        pairs=frozenset((run.strategy, run.seed) for run in runs),
    )
    try:
        run_missing(
            [part], progress=work.progress, jobs=jobs, deadline=work.deadline, command=command
        )
    except RunFolderError:
        raise  # The folder is of something else: nothing that follows could be right.
    except SteepestError as error:
        work.problems[group, ""] = f"{group}: {error}"
    _tell_of_parts(work, group, runs)


def _tell_of_parts(work: Workspace, group: str, runs: Sequence[Wanted]) -> None:
    """Remember which runs have all their records and lack something else all the same."""
    for run in runs:
        whole = count_records(run.folder) >= run.config.loop.cycles
        if whole and work.find(run.need, run.strategy, run.seed) is None:
            work.problems[group, run.strategy] = (
                f"{run.folder} has all records, but weights are missing or its config.json is "
                "damaged: delete that folder, and the same command makes the run again"
            )


def _fitting(work: Workspace, group: str, runs: Sequence[Wanted]) -> list[Wanted]:
    """Return the runs whose strategy can choose from such data, and remember why others cannot."""
    work.write_own_data(runs[0].config)
    data = load_data(_trial(runs[0].config))
    refused: dict[str, str] = {}
    for run in {run.strategy: run for run in runs}.values():
        try:
            Experiment(_trial(run.config), run.folder, data=data)
        except SteepestError as error:
            refused[run.strategy] = f"{group}: {run.strategy} cannot be run here ({error})"
    work.problems.update({(group, name): text for name, text in refused.items()})
    return [run for run in runs if run.strategy not in refused]


def _trial(config: Config) -> Config:
    """Return the smallest experiment of the same parts: simulated data are made sparingly."""
    options = dict(config.data.options)
    if {"train", "test"} <= inspect.signature(DATASETS.get(config.data.name)).parameters.keys():
        options |= {"train": 2, "test": 2}
    part = replace(config.data, options=options)
    return replace(config, data=part, loop=Loop(initial=1, k=1, cycles=1, subset=1))

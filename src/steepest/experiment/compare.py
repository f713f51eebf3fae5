"""A fair comparison: the same initial set and weights for every strategy of a seed.

Every run is an experiment of its own in ``runs/STRATEGY/seed-N``; a run that is complete is left
alone, one that is not goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from steepest.errors import InputError, RunFolderError, SteepestError
from steepest.experiment.config import Config
from steepest.experiment.environment import choose_device, describe_environment
from steepest.experiment.folder import count_records
from steepest.experiment.loop import Experiment
from steepest.experiment.outcomes import BASELINE
from steepest.files import write_atomically
from steepest.progress import Progress
from steepest.strategies.base import STRATEGIES
from steepest.tables import from_table

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Run:
    """One strategy under one seed."""

    config: Config
    folder: Path

    @property
    def complete(self) -> bool:
        """Whether all its cycles are on record."""
        return count_records(self.folder) >= self.config.loop.cycles


def plan_runs(
    config: Config, strategies: Sequence[str], seeds: Sequence[int], out: Path
) -> list[Run]:
    """Return all runs of a comparison, the baseline among them.

    Raises:
        UnknownNameError: For an unknown strategy.
        InputError: If there is nothing to compare.
    """
    if not strategies or not seeds:
        raise InputError("a comparison needs at least one strategy and one seed")
    for name in strategies:
        STRATEGIES.get(name)
    names = list(dict.fromkeys([*strategies, BASELINE]))
    # Seed by seed, so that an interrupted comparison is paired as far as it came.
    return [
        Run(config.with_strategy(name, seed), out / "runs" / name / f"seed-{seed}")
        for seed in seeds
        for name in names
    ]


def compare(
    config: Config,
    strategies: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    progress: Progress,
    jobs: int | None = None,
    deadline: float | None = None,
    command: str = "",
) -> list[Run]:
    """Run what is missing of a comparison.

    Args:
        config: The experiment; its strategy and seed are replaced.
        strategies: Names; ``random`` is added if it is not among them.
        seeds: One run of each strategy per seed.
        out: The comparison's folder.
        progress: Told of finished cycles.
        jobs: Runs side by side; None picks a number for the machine.
        deadline: In the seconds of ``time.time()``: no cycle is begun that would probably end
            later. The same call goes on from there.
        command: What the user typed, kept with the results.

    Raises:
        RunFolderError: If the folder belongs to another comparison.
        SteepestError: If a run fails; the others are complete or resumable.
    """
    runs = plan_runs(config, strategies, seeds, out)
    _describe(config, runs, seeds, out, command)
    missing = [run for run in runs if not run.complete]
    if missing:
        workers = _jobs(jobs, config, len(missing))
        threads = max(1, (os.cpu_count() or 1) // workers)
        _run_all(missing, workers, threads, deadline, progress)
    return runs


def _run_all(
    missing: list[Run], workers: int, threads: int, deadline: float | None, progress: Progress
) -> None:
    total = sum(run.config.loop.cycles for run in missing)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context)
    try:
        futures = [
            pool.submit(_work, run.config.to_table(), str(run.folder), threads, deadline)
            for run in missing
        ]
        with progress.task("comparing (cycles)", total) as step:
            shown = 0
            while not all(f.done() for f in futures):
                time.sleep(_POLL_SECONDS)
                done = sum(count_records(run.folder) for run in missing)
                step.advance(done - shown, note=f"{sum(r.complete for r in missing)} runs")
                shown = done
                _raise_failure(futures)
        _raise_failure(futures)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _work(table: dict[str, Any], folder: str, threads: int, deadline: float | None) -> str:
    """Run one experiment in a worker process; return its error in words, or nothing."""
    torch.set_num_threads(threads)
    try:
        Experiment(from_table(Config, table), Path(folder)).run(deadline)
    except SteepestError as error:
        return f"{folder}: {error}"
    return ""


def _raise_failure(futures: Sequence[Future[str]]) -> None:
    for future in futures:
        if not future.done() or future.cancelled():
            continue
        try:
            problem = future.result()
        except BrokenProcessPool as error:
            raise SteepestError(
                "a worker process was killed (out of memory?): run the same command again to go "
                "on, perhaps with --jobs 1"
            ) from error
        if problem:
            raise SteepestError(problem)


def _jobs(jobs: int | None, config: Config, missing: int) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    if jobs is None:
        # Small nets gain more from runs side by side than from threads within one.
        on_gpu = choose_device(config.device).type == "cuda"
        jobs = 1 if on_gpu else (os.cpu_count() or 1)
    return min(jobs, missing)


def _describe(
    config: Config, runs: Sequence[Run], seeds: Sequence[int], out: Path, command: str
) -> None:
    """Write what is compared, or check that the folder holds the same experiment.

    Strategies and seeds may be added later; anything else must stay.
    """
    path = out / "comparison.json"
    strategies = list(dict.fromkeys(run.config.strategy.name for run in runs))
    common = json.loads(json.dumps(config.to_table()))
    seeds = list(seeds)
    if path.exists():
        found = _read(path)
        if found["config"] != common:
            raise RunFolderError(
                f"{out} holds a comparison of another configuration: choose another --out"
            )
        strategies = list(dict.fromkeys([*found["strategies"], *strategies]))
        seeds = sorted({*found["seeds"], *seeds})
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunFolderError(f"{out} is not empty and holds no comparison: choose another --out")
    description = {
        "name": config.name,
        "strategies": strategies,
        "seeds": seeds,
        "config": common,
        "command": command,
        "versions": describe_environment(choose_device(config.device)),
    }
    write_atomically(path, json.dumps(description, indent=1) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {key: found[key] for key in ("config", "strategies", "seeds")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is damaged ({error}): choose another --out") from error

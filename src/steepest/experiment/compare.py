"""A fair comparison: the same initial set and weights for every strategy of a seed.

Every run is an experiment of its own in ``runs/STRATEGY/seed-N``; a run that is complete is left
alone, one that is not goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from steepest.devices import choose_device
from steepest.errors import InputError, RunFolderError, SteepestError
from steepest.experiment.config import Config, completed
from steepest.experiment.environment import describe_environment
from steepest.experiment.folder import count_lines, count_records, first_difference
from steepest.experiment.loop import Experiment
from steepest.experiment.outcomes import BASELINE
from steepest.files import write_atomically
from steepest.progress import Progress, SilentProgress
from steepest.strategies.base import STRATEGIES
from steepest.tables import from_table
from steepest.training.sharing import shared_gpu

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
    seeds = list(dict.fromkeys(seeds))
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
    out: Path | str,
    *,
    progress: Progress | None = None,
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
    out = Path(out)
    runs = plan_runs(config, strategies, seeds, out)
    missing = [run for run in runs if not run.complete]
    workers = _jobs(jobs, config, len(missing))
    if missing:
        # What is wrong with all of them shows before the first file is written.
        Experiment(missing[0].config, missing[0].folder)
    _describe(config, runs, out, command)
    if missing:
        _run_all(missing, workers, deadline, progress or SilentProgress())
    return runs


def _run_all(missing: list[Run], workers: int, deadline: float | None, progress: Progress) -> None:
    total = sum(run.config.loop.cycles for run in missing)
    context = multiprocessing.get_context("spawn")
    side_by_side = workers > 1 and choose_device(missing[0].config.device).type == "cuda"
    with shared_gpu() if side_by_side else nullcontext():
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
        _watch(pool, missing, deadline, progress, total)


def _watch(
    pool: ProcessPoolExecutor,
    missing: list[Run],
    deadline: float | None,
    progress: Progress,
    total: int,
) -> None:
    """Give all runs to the workers and show how far they are."""
    try:
        futures = [
            pool.submit(_work, run.config.to_table(), str(run.folder), deadline) for run in missing
        ]
        with progress.task("comparing (cycles)", total) as step:
            shown = 0
            while not all(f.done() for f in futures):
                time.sleep(_POLL_SECONDS)
                cycles = [count_lines(run.folder) for run in missing]
                whole = sum(n >= r.config.loop.cycles for n, r in zip(cycles, missing, strict=True))
                step.advance(sum(cycles) - shown, note=f"{whole} of {len(missing)} runs complete")
                shown = sum(cycles)
                _raise_failure(futures)
        _raise_failure(futures)
    except BaseException:
        # Runs under way are resumable: nobody has to wait for them.
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """Let this worker end when the process that started it is gone, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer.
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(table: dict[str, Any], folder: str, deadline: float | None) -> str:
    """Run one experiment in a worker process; return its error in words, or nothing."""
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
        jobs = 1 if on_gpu else max(1, (os.cpu_count() or 1) // config.threads)
    return max(1, min(jobs, missing))


def _describe(config: Config, runs: Sequence[Run], out: Path, command: str) -> None:
    """Write what is compared, or check that the folder holds the same experiment.

    Strategies and seeds may be added later; anything else must stay.
    """
    path = out / "comparison.json"
    strategies = list(dict.fromkeys(run.config.strategy.name for run in runs))
    common = json.loads(json.dumps(config.to_table()))
    seeds = list(dict.fromkeys(run.config.seed for run in runs))
    if path.exists():
        found = _read(path)
        known = json.loads(json.dumps(completed(found["config"])))
        if known != common:
            difference = first_difference(known, common)
            raise RunFolderError(
                f"{out} holds a comparison of another configuration ({difference}): "
                "choose another --out"
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

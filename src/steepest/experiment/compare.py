"""A fair comparison: the same initial set and weights for every strategy of a seed.

Every run is its own experiment in ``runs/LABEL/seed-N``; a run that is complete is left
alone, one that is not resumes where it stopped.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from steepest.core.devices import choose_device, usable_cores
from steepest.core.lock import InUseError
from steepest.core.processes import (
    SpawnedWorkers,
    Work,
    WorkerEndedError,
    Workers,
    main_can_be_imported,
)
from steepest.core.progress import Progress, SilentProgress
from steepest.core.ray_workers import RayWorkers
from steepest.core.tables import from_table
from steepest.data import ImageSet
from steepest.errors import FailedRunsError, InputError, SteepestError, SteepestWarning
from steepest.experiment.building import load_data
from steepest.experiment.committee_training import SideBySide
from steepest.experiment.comparison_runs import Comparing, Run, all_runs
from steepest.experiment.config import Config, DataPart
from steepest.experiment.environment import changed_modules, warn_of_changed_code
from steepest.experiment.folder import count_lines
from steepest.experiment.loop import Experiment
from steepest.experiment.variants import Variant
from steepest.selecting.ray_engine import Engine, OnRay, as_engine
from steepest.strategies import create
from steepest.training.gpu_sharing import shared_gpu

_POLL_SECONDS = 0.5
_Showing = AbstractContextManager[Callable[[], None]]
_TRACE = "error.txt"
"""In the folder of a run that an error of unknown kind ended, until it is run again."""


def compare(
    config: Config,
    strategies: Sequence[str | Variant],
    seeds: Sequence[int],
    out: Path | str,
    *,
    progress: Progress | None = None,
    jobs: int | None = None,
    member_jobs: int | None = None,
    deadline: float | None = None,
    command: str = "",
    engine: Engine = "here",
    track: str | None = None,
) -> list[Run]:
    """Run the missing runs of a comparison.

    Args:
        config: The experiment; its strategy and seed are replaced.
        strategies: Names, or ``LABEL=NAME(OPTION=VALUE,…)``; ``random`` is added if it is not
            among them.
        seeds: One run of each strategy per seed.
        out: The comparison's folder.
        progress: Updated after each cycle.
        jobs: Runs side by side; None picks a number for the machine.
        member_jobs: Members of a committee that a run trains side by side; None stands for as
            many as a GPU has room for, and for one on a CPU or beside other runs.
        deadline: In the seconds of ``time.time()``: no cycle is begun that would probably end
            later. The same call resumes from there.
        command: The command as typed, kept with the results.
        engine: Where runs are made: ``"here"``, in processes of this machine, or ``"ray"``, one run
            at a time in each actor of a Ray cluster; all its machines must see the folder.
        track: Where metrics are sent after each cycle: ``"mlflow"``, ``"wandb"`` or
            ``"tensorboard"``.

    Raises:
        RunFolderError: If the folder belongs to another comparison.
        FailedRunsError: If runs failed, after all the others.
        SteepestError: If a worker process was killed; its work can be resumed.
    """
    comparing = Comparing(config, strategies, seeds, Path(out))
    run_missing(
        [comparing],
        progress=progress,
        jobs=jobs,
        member_jobs=member_jobs,
        deadline=deadline,
        command=command,
        engine=engine,
        track=track,
    )
    return comparing.runs


def run_missing(
    comparisons: Sequence[Comparing],
    *,
    progress: Progress | None = None,
    jobs: int | None = None,
    member_jobs: int | None = None,
    deadline: float | None = None,
    command: str = "",
    engine: Engine = "here",
    track: str | None = None,
) -> None:
    """Run the missing runs of some comparisons, in their order, with one set of workers.

    Args:
        comparisons: All are checked before the first file is written; several may share a folder.
        progress: Updated after each cycle.
        jobs: Runs side by side; None picks a number for the machine.
        member_jobs: As for ``compare``.
        deadline: As for ``compare``, for all of them together.
        command: The command as typed, kept with the results.
        engine: As for ``compare``.
        track: As for ``compare``.

    Raises:
        RunFolderError: If a folder belongs to something else.
        FailedRunsError: If runs failed, after all the others.
        SteepestError: If a worker process was killed; its work can be resumed.
    """
    missing = [run for run in all_runs(comparisons) if not run.complete]
    on_ray = as_engine(engine)
    workers = _jobs(jobs, [c.config for c in comparisons], len(missing))
    if workers > 1 and member_jobs is None:
        member_jobs = 1  # The runs keep the machine busy.
    SideBySide(member_jobs)  # Refuses what is no number of members.
    for comparing in comparisons:
        _check_parts(comparing)
    for comparing in comparisons:
        comparing.check(command)
    for comparing in comparisons:
        comparing.record(command)
    with _tracked(comparisons, track) as send:
        shown = _shown(missing, progress or SilentProgress(), send)
        if missing and on_ray is not None:
            _run_on_ray(missing, on_ray, jobs, member_jobs, deadline, shown)
        elif missing:
            _run_all(missing, workers, member_jobs, deadline, shown)


def _check_parts(comparing: Comparing) -> None:
    """Let every strategy that has something to do meet the data and the model once."""
    first = {run.label: run for run in reversed(comparing.runs) if not run.complete}
    data = load_data(comparing.config) if first else None
    for run in first.values():
        Experiment(run.config, run.folder, data=data)
    changed = {
        run.label: modules
        for run in comparing.runs
        if run.complete and (modules := changed_modules(run.folder, run.config))
    }
    runs = f"runs of {', '.join(changed)} in {comparing.out}"
    warn_of_changed_code(runs, [module for modules in changed.values() for module in modules])


def _run_all(
    missing: list[Run],
    workers: int,
    member_jobs: int | None,
    deadline: float | None,
    shown: _Showing,
) -> None:
    on_gpu = any(choose_device(run.config.device).type == "cuda" for run in missing)
    # A run may have worker processes, too; the service must not end or stay behind with one run.
    several = workers > 1 or (member_jobs != 1 and any(map(_has_members, missing)))
    try:
        with (
            shared_gpu() if on_gpu and several else nullcontext(),
            # They run the main file where they can: it may define or import a strategy.
            # Runs under way are resumable: after an error no one has to wait for them.
            SpawnedWorkers(workers, needs_main=main_can_be_imported()) as team,
        ):
            runs = [(run, run.folder, run.shared) for run in missing]
            _answer_all(team, runs, member_jobs, deadline, shown)
    except WorkerEndedError as error:
        raise SteepestError(_explain_end(begun=error.begun)) from error


def _run_on_ray(
    missing: list[Run],
    engine: OnRay,
    jobs: int | None,
    member_jobs: int | None,
    deadline: float | None,
    shown: _Showing,
) -> None:
    """Give each run to an actor; one whose machine is lost resumes from its folder elsewhere."""
    with RayWorkers(
        address=engine.address,
        count=jobs if engine.workers is None else engine.workers,
        threads=max(run.config.threads for run in missing),
        gpu=any(choose_device(run.config.device).type == "cuda" for run in missing),
        ahead=1,
    ) as team:
        runs = [(run, run.folder.absolute(), run.shared.absolute()) for run in missing]
        _answer_all(team, runs, 1 if member_jobs is None else member_jobs, deadline, shown)


def _answer_all(
    team: Workers,
    runs: Sequence[tuple[Run, Path, Path]],
    member_jobs: int | None,
    deadline: float | None,
    shown: _Showing,
) -> None:
    """Give all runs, with their folders, to the workers and show how far they are."""
    items = [(run.config.to_table(), folder, shared) for run, folder, shared in runs]
    with shown as show:
        problems = dict(team.answers(_runner, (member_jobs, deadline), items, meanwhile=show))
        show()
    _raise_problems(problems[number] for number in sorted(problems))


def _runner() -> Work:
    warnings.formatwarning = _format_warning
    return lambda common, run: _work(*run, *common)


@contextmanager
def _shown(
    missing: Sequence[Run], progress: Progress, send: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """Yield what shows how far runs are, as their folders say, and sends new records."""
    shown = 0

    def show() -> None:
        nonlocal shown
        cycles = [count_lines(run.folder) for run in missing]
        whole = sum(n >= r.config.loop.cycles for n, r in zip(cycles, missing, strict=True))
        step.advance(sum(cycles) - shown, note=f"{whole} of {len(missing)} runs complete")
        if sum(cycles) > shown:
            send()
        shown = sum(cycles)

    with progress.task("comparing (cycles)", sum(r.config.loop.cycles for r in missing)) as step:
        yield show


@contextmanager
def _tracked(comparisons: Sequence[Comparing], kind: str | None) -> Iterator[Callable[[], None]]:
    """Yield what sends new records of all runs, complete ones too, to a tracker."""
    if kind is None:
        yield lambda: None
        return
    from steepest.experiment.tracking import Tracking, tracked

    followed = [(Tracking(kind, c.out, c.config.name), c) for c in comparisons]

    def send() -> None:
        for tracking, comparing in followed:
            tracking.update(tracked(comparing.runs))

    try:
        send()
        yield send
        send()
    finally:
        for tracking, _ in followed:
            tracking.close()


def _raise_problems(told: Iterable[str]) -> None:
    if problems := [problem for problem in told if problem]:
        raise FailedRunsError(problems)


def _explain_end(*, begun: bool) -> str:
    if begun:
        return (
            "a worker process was killed (out of memory?): run the same command again to go on, "
            "perhaps with --jobs 1"
        )
    return (
        "a worker process ended at its start, before it ran anything: in a script of your own, "
        'put what it does under `if __name__ == "__main__":`; otherwise see what it wrote above'
    )


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning as one line for a person, without the place in the code."""
    return f"steepest: warning: {' '.join(str(message).split())}\n"


def _work(
    table: dict[str, Any],
    folder: Path,
    shared: Path,
    member_jobs: int | None,
    deadline: float | None,
) -> str:
    """Run one experiment in a worker process; return its error in words, or nothing.

    Whatever goes wrong in one run, such as an error in a strategy of the user's own, is not to keep
    the others from being run.
    """
    report = folder / _TRACE
    try:
        with warnings.catch_warnings():
            # The parent process has loaded the same data and strategy, and shown their warnings.
            warnings.simplefilter("ignore", SteepestWarning)
            config = from_table(Config, table)
            data = _LOADED.load(config)
            run = Experiment(config, folder, data=data, shared=shared, member_jobs=member_jobs)
        _run_alone(run, deadline)
        report.unlink(missing_ok=True)
    except SteepestError as error:
        text = str(error)
        return text if text.startswith(str(folder)) else f"{folder}: {text}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may be of anyone's code
        with suppress(OSError):  # A disk that is full may be what went wrong.
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(traceback.format_exc(), encoding="utf-8")
        said = " ".join(str(error).split())
        return (
            f"{folder}: {type(error).__name__}: {said} (the whole trace is in {report.name} there)"
        )
    return ""


class _LastLoaded:
    """The data set that a worker process used last: its next run most often wants the same."""

    def __init__(self) -> None:
        self._part: DataPart | None = None
        self._data: ImageSet | None = None

    def load(self, config: Config) -> ImageSet:
        """Return the configuration's data set, loaded only if the last one was another."""
        if self._data is None or self._part != config.data:
            self._data = None  # Two large data sets need not fit into memory.
            self._data, self._part = load_data(config), config.data
        return self._data


_LOADED = _LastLoaded()


def _run_alone(run: Experiment, deadline: float | None) -> None:
    """Run once no other process does: another comparison in the same folder may be about to.

    What it has done by then counts; whoever comes second finds the run complete.
    """
    while True:
        try:
            run.run(deadline)
        except InUseError:
            if deadline is not None and time.time() > deadline:
                return
            time.sleep(_POLL_SECONDS)
        else:
            return


def _has_members(run: Run) -> bool:
    return create(run.config.strategy.name, run.config.strategy.options).members > 1


def _jobs(jobs: int | None, configs: Sequence[Config], missing: int) -> int:
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    if jobs is None:
        jobs = min(map(_side_by_side, configs))
    return max(1, min(jobs, missing))


def _side_by_side(config: Config) -> int:
    """Return how many runs a machine does well at a time."""
    # Small nets gain more from runs side by side than from threads within one.
    on_gpu = choose_device(config.device).type == "cuda"
    return 1 if on_gpu else max(1, usable_cores() // config.threads)

"""Selections on Ray beside the same ones in one process: seconds, processor time, equal picks."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from steepest.bench.machine import describe_machine
from steepest.bench.storage import SCHEMA, Stored, Table, name_place, show_number
from steepest.core.progress import Progress
from steepest.core.seeds import generator
from steepest.errors import SteepestWarning
from steepest.selecting import OnRay, select

HERE, RAY, PARTS = "one process", "Ray", "Ray, parts kept"
_HIDDEN, _CLASSES, _TILE = 256, 10, 1 << 16


@dataclass(frozen=True)
class ScaleTiming:
    """A strategy's selections in one way.

    Attributes:
        strategy: Its name.
        way: In one process, on Ray, or on Ray with finished parts kept on disk.
        seconds: On the clock, in each round.
        core_seconds: Of all processes together, in each round; none where the platform does not
            tell.
        equal: Whether the picks and their scores were those of one process in every round.
    """

    strategy: str
    way: str
    seconds: tuple[float, ...] = ()
    core_seconds: tuple[float, ...] = ()
    equal: bool = True


@dataclass(frozen=True)
class ScaleResult(Stored):
    """A whole run of ``steepest bench scale``.

    Attributes:
        rows: Samples of the pool.
        features: Numbers of a sample.
        k: How many are chosen.
        workers: Processes on Ray, each with one thread, as the one process has.
        start_seconds: Until Ray and its workers had answered a first, small selection.
        timings: One for each strategy and way.
    """

    rows: int
    features: int
    k: int
    workers: int
    start_seconds: float | None
    timings: tuple[ScaleTiming, ...]

    def text(self) -> str:
        """Return the result as a plain table."""
        return self.table().text()

    def table(self) -> Table:
        """Return a row for each timing."""
        measured = [timing for timing in self.timings if timing.seconds]
        return Table(
            f"{self.rows:,} rows of {self.features} numbers, k = {self.k:,}, {self.workers} "
            f"workers of one thread; {name_place(self, 1)}; Ray and its workers were up after "
            f"{show_number(self.start_seconds, '.1f')} s",
            ("strategy", "way", "s", "processor s", "beside one process"),
            [self._row(timing) for timing in measured],
            [
                "" if t.equal else "other picks than in one process"
                for t in self.timings
                if t.seconds
            ],
            [f"{t.strategy}, {t.way}" for t in measured],
        )

    def _row(self, timing: ScaleTiming) -> list[str]:
        return [
            timing.strategy,
            timing.way,
            f"{median(timing.seconds):.1f}",
            show_number(_middle(timing.core_seconds), ".1f"),
            show_number(self.overhead(timing), ".2f"),
        ]

    def overhead(self, timing: ScaleTiming) -> float | None:
        """Return the median ratio of processor time to that of one process, round by round."""
        here = next(t for t in self.timings if (t.strategy, t.way) == (timing.strategy, HERE))
        pairs = zip(timing.core_seconds, here.core_seconds, strict=False)
        return _middle(tuple(there / one for there, one in pairs if one > 0))


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


class ScaleBench:
    """Lets each strategy choose in one process and on Ray, in turns.

    Args:
        strategies: Names.
        rows: Samples of the pool, which is a mapped file.
        features: Numbers of a sample.
        k: How many are chosen.
        workers: Processes on Ray.
        rounds: How often each way is measured.
        seed: Decides all numbers.
        progress: Updated after each selection.
        command: As typed, for the record.
    """

    def __init__(
        self,
        strategies: Sequence[str],
        rows: int,
        features: int,
        k: int,
        workers: int,
        rounds: int,
        seed: int,
        progress: Progress,
        command: str,
    ) -> None:
        self._rows, self._features, self._k = rows, features, k
        self._workers, self._rounds, self._seed = workers, rounds, seed
        self._progress, self._command = progress, command
        self._start_seconds: float | None = None
        self._timings = {
            (name, way): ScaleTiming(name, way) for name in strategies for way in (HERE, RAY, PARTS)
        }

    def run(self, after_each: Callable[[ScaleResult], None] | None = None) -> ScaleResult:
        """Measure everything."""
        torch.set_num_threads(1)  # As many as each worker has.
        model = make_model(self._features, self._seed)
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-")))
            pool = make_rows(scratch / "pool.npy", self._rows, self._features, self._seed)
            engine = stack.enter_context(OnRay(workers=self._workers))
            began = time.perf_counter()
            select(model, pool[:64], 1, "margin", engine=engine, progress=False)
            self._start_seconds = time.perf_counter() - began
            steps = self._rounds * len(self._timings)
            with self._progress.task("selections", steps) as step:
                for number in range(self._rounds):
                    for key in self._timings:
                        engine.parts = (
                            scratch / f"parts-{number}-{key[0]}" if key[1] == PARTS else None
                        )
                        self._measure(key, model, pool, engine)
                        step.advance(note=f"{key[0]}, {key[1]}")
                        if after_each is not None:
                            after_each(self.result())
        return self.result()

    def _measure(
        self, key: tuple[str, str], model: nn.Module, pool: np.memmap, engine: OnRay
    ) -> None:
        name, way = key
        began, before = time.perf_counter(), core_seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SteepestWarning)  # The model is random.
            picks = select(
                model,
                pool,
                self._k,
                name,
                seed=self._seed,
                engine="here" if way == HERE else engine,
                progress=False,
            )
        spent, after = time.perf_counter() - began, core_seconds()
        if way == HERE:
            self._expected = picks
        old = self._timings[key]
        cores = (seconds_between(before, after),) if before else ()
        self._timings[key] = replace(
            old,
            seconds=(*old.seconds, spent),
            core_seconds=(*old.core_seconds, *cores),
            equal=old.equal and picks == self._expected,
        )

    def result(self) -> ScaleResult:
        """Return the results so far."""
        device = torch.device("cpu")
        return ScaleResult(
            schema=SCHEMA,
            command=self._command,
            environment=describe_machine(device),
            device=device.type,
            seed=self._seed,
            complete=all(len(t.seconds) == self._rounds for t in self._timings.values()),
            rows=self._rows,
            features=self._features,
            k=self._k,
            workers=self._workers,
            start_seconds=self._start_seconds,
            timings=tuple(self._timings.values()),
        )


def make_model(features: int, seed: int) -> nn.Module:
    """Return a small net on rows: so small that anything spent beside it shows."""
    draws = generator(seed, "bench model")
    model = nn.Sequential(nn.Linear(features, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _CLASSES))
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=draws) / weights.shape[-1] ** 0.5)
    return model.eval()


def make_rows(path: Path, rows: int, features: int, seed: int) -> np.memmap:
    """Write normal numbers [N, D] to a ``.npy`` file, and return it mapped."""
    pool = np.lib.format.open_memmap(path, "w+", np.float32, (rows, features))
    for start in range(0, rows, _TILE):
        draws = generator(seed, "bench rows", start)
        stop = min(start + _TILE, rows)
        pool[start:stop] = torch.randn(stop - start, features, generator=draws).numpy()
    pool.flush()
    mapped: np.memmap = np.load(path, mmap_mode="c")
    return mapped


def core_seconds() -> dict[int, float]:
    """Return the processor time so far of this process and each below it, by process id.

    Nothing where the platform has no ``/proc``.
    """
    used, below = dict[int, int](), dict[int, list[int]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # It has ended meanwhile.
        fields = text.rpartition(")")[2].split()
        below.setdefault(int(fields[1]), []).append(int(folder.name))
        used[int(folder.name)] = int(fields[11]) + int(fields[12])
    ticks = os.sysconf("SC_CLK_TCK") if used else 1
    found, todo = dict[int, float](), [os.getpid()]
    while todo:
        pid = todo.pop()
        if pid in used:
            found[pid] = used[pid] / ticks
        todo += below.get(pid, [])
    return found


def seconds_between(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """Return the processor time between two looks, of all processes that are there at the end."""
    return sum(spent - before.get(pid, 0.0) for pid, spent in after.items())

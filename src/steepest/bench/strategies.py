"""Time and memory of choosing by every strategy as pools grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal

import torch

from steepest.bench.feature_pool import image_sides
from steepest.bench.growth import fit_exponent
from steepest.bench.machine import describe_machine
from steepest.bench.other_implementations import (
    DIFFERENT,
    LEFT_OUT,
    SKACTIVEML,
    STRAIGHTFORWARD,
    Picks,
    compare_picks,
)
from steepest.bench.storage import (
    NONE,
    SCHEMA,
    Stored,
    Table,
    last_line,
    name_place,
    not_installed,
    say_status,
)
from steepest.core.progress import Progress
from steepest.errors import InputError
from steepest.strategies import names

QUICK: Mapping[str, Mapping[str, Any]] = {
    "core-gcn": {"epochs": 20},
    "sraal": {"iterations": 100},
    "uncertain-gcn": {"epochs": 20},
    "vaal": {"iterations": 100},
}
"""Options that keep a training short, whose steps are all alike; stored with the result."""

_SMALL_K: Mapping[str, int] = {"batchbald": 10}
"""Strategies that are meant for small batches."""

_TOLD = {"straightforward": LEFT_OUT, "skactiveml": DIFFERENT}
"""Differences from our implementation, by contender and strategy."""
Status = Literal[
    "measured", "refused", "out-of-memory", "timed-out", "absent", "failed", "unfinished"
]

Kind = Literal["ours", "straightforward", "skactiveml"]
_WORTH_TELLING_SECONDS = 0.05


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement.

    Attributes:
        strategies: Names; all if empty.
        pools: Numbers of unlabelled samples.
        device: Where.
        threads: CPU threads.
        features: Dimensions of a sample: 8 · height · width.
        classes: Classes of the head.
        labelled: Labelled samples.
        k: How many are chosen.
        limit_seconds: After which one trial is given up.
        seed: Decides the samples and the head.
        command: The command as typed, for the record.
    """

    strategies: tuple[str, ...]
    pools: tuple[int, ...]
    device: torch.device
    threads: int
    features: int = 512
    classes: int = 10
    labelled: int = 5000
    k: int = 1000
    limit_seconds: float = 300.0
    seed: int = 0
    command: str = ""

    def __post_init__(self) -> None:
        """Raise if something cannot be used.

        Raises:
            InputError: Says the remedy.
        """
        for name, value in {
            "-k": self.k,
            "--threads": self.threads,
            "--num-classes": self.classes,
        }.items():
            if value < 1:
                raise InputError(f"{name}: at least 1 is needed")
        if not self.pools or min(self.pools) < self.k:
            raise InputError(f"--pool-sizes: every pool must hold at least k = {self.k} samples")
        if image_sides(self.features)[0] < 2:
            raise InputError(
                "--feature-size: 8 · height · width of an image is needed, such as 256 or 512; not "
                f"{self.features}"
            )


class StrategiesBench:
    """Runs one trial after another, and can report the results so far at any moment.

    Args:
        settings: What to measure.
        progress: Shows how far it is.
    """

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        chosen = settings.strategies or tuple(names())
        # Ways take turns: what a machine is like in one hour, it is not in the next.
        self._rows = [
            StrategyMeasurement(name, kind, pool, "unfinished", "", _options(name, kind))
            for name in chosen
            for pool in sorted(settings.pools)
            for kind in _ways(name)
        ]
        self._our_picks: list[int] = []

    def run(self, after_each: Callable[[StrategiesResult], None] | None = None) -> StrategiesResult:
        """Measure everything.

        Args:
            after_each: Called with what is known after each trial.
        """
        with self._progress.task("choosing", len(self._rows)) as step:
            for place, row in enumerate(self._rows):
                smaller = (m for m in reversed(self._rows[:place]) if _way(m) == _way(row))
                self._rows[place] = self._measure(row, next(smaller, None))
                step.advance(note=f"{row.strategy}, {row.pool:,}")
                if after_each is not None:
                    after_each(self.result())
        return self.result()

    def result(self) -> StrategiesResult:
        """Return the results so far."""
        settings = self._settings
        return StrategiesResult(
            schema=SCHEMA,
            command=settings.command,
            environment=describe_machine(settings.device),
            device=settings.device.type,
            threads=settings.threads,
            features=settings.features,
            classes=settings.classes,
            labelled=settings.labelled,
            k=settings.k,
            seed=settings.seed,
            complete=all(row.status != "unfinished" for row in self._rows),
            measurements=tuple(self._rows),
        )

    def _measure(
        self, row: StrategyMeasurement, before: StrategyMeasurement | None
    ) -> StrategyMeasurement:
        if row.kind == "ours":
            self._our_picks = []
        if row.kind == "skactiveml" and find_spec(row.kind) is None:
            return replace(row, status="absent", note=not_installed("scikit-activeml"))
        if before is not None and before.status in ("timed-out", "out-of-memory"):
            # A larger pool would go the same way, after the same wait.
            return replace(row, status=before.status, note=f"as with {before.pool:,} samples")
        settings = self._settings
        k = min(settings.k, _SMALL_K.get(row.strategy, settings.k))
        job = {
            "strategy": row.strategy,
            "kind": row.kind,
            "options": dict(row.options),
            "pool": row.pool,
            "labelled": settings.labelled,
            "k": k,
            "features": settings.features,
            "classes": settings.classes,
            "seed": settings.seed,
            "device": str(settings.device),
            "threads": settings.threads,
        }
        said = dict(row.options) if k == settings.k else {"k": k, **row.options}
        note = ", ".join(f"{name} = {value}" for name, value in said.items())
        if row.kind != "ours":
            note = _TOLD[row.kind].get(row.strategy, note)
        if row.kind == "skactiveml" and settings.device.type != "cpu":
            note = "; ".join(filter(None, [note, "on the host, whose memory is not counted"]))
        try:
            found = _in_child(job, settings.limit_seconds)
        except subprocess.TimeoutExpired:
            return replace(row, status="timed-out", note=f"over {settings.limit_seconds:g} s")
        picks = found.pop("picks", None)
        if row.kind == "ours":
            self._our_picks = picks or []
        elif row.kind == "skactiveml" and picks and self._our_picks:
            found["picks"] = compare_picks(job, self._our_picks, picks)
        return replace(row, **{"note": note, **found})


def _ways(strategy: str) -> Iterator[Kind]:
    yield "ours"
    if strategy in STRAIGHTFORWARD:
        yield "straightforward"
    if strategy in SKACTIVEML:
        yield "skactiveml"


def _options(strategy: str, kind: Kind) -> dict[str, Any]:
    return dict(QUICK.get(strategy, {})) if kind == "ours" else {}


def _way(row: StrategyMeasurement) -> tuple[str, str]:
    return row.strategy, row.kind


def _in_child(job: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - this very interpreter and module
        [sys.executable, "-P", "-m", "steepest.bench.strategy_trial", json.dumps(job)],
        # Packages beside torch count threads for themselves.
        env={**os.environ, "OMP_NUM_THREADS": str(job["threads"])},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_seconds,
    )
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(last_line(done.stdout))
        return found
    if done.returncode < 0:
        return {"status": "out-of-memory", "note": f"ended by signal {-done.returncode}"}
    return {"status": "failed", "note": last_line(done.stderr)}


@dataclass(frozen=True)
class StrategyMeasurement:
    """One strategy on one pool.

    Attributes:
        strategy: Its name.
        kind: ``"ours"``, ``"straightforward"`` for the way that writes everything out, or the
            package whose way it is.
        pool: Unlabelled samples.
        status: How it went.
        note: Why there are no numbers, or what to know of them.
        options: What it was given.
        prepare_seconds: Training for the strategy's sake.
        choose_seconds: From the pool to the choice, the pass over the head included. Both are
            core time for a single CPU thread, and by the wall clock otherwise.
        peak_mib: The most memory above what the pool and the model hold.
        picks: How a package's picks compare with ours.
    """

    strategy: str
    kind: Kind
    pool: int
    status: Status
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare_seconds: float | None = None
    choose_seconds: float | None = None
    peak_mib: float | None = None
    picks: Picks | None = None


@dataclass(frozen=True)
class StrategiesResult(Stored):
    """A whole run of ``steepest bench strategies``.

    Attributes:
        threads: CPU threads.
        features: Dimensions of a sample.
        classes: Classes of the head.
        labelled: Labelled samples.
        k: How many are chosen.
        measurements: One for each strategy, kind and pool.
    """

    threads: int
    features: int
    classes: int
    labelled: int
    k: int
    measurements: tuple[StrategyMeasurement, ...]


def strategies_table(result: StrategiesResult) -> Table:
    """Return one row for each strategy and way, with two columns for each pool."""
    pools = sorted({m.pool for m in result.measurements})
    titles = (title for pool in pools for title in (f"{pool:,}: s", "MiB"))
    ways: dict[tuple[str, str], dict[int, StrategyMeasurement]] = {}
    for m in result.measurements:
        ways.setdefault((m.strategy, m.kind), {})[m.pool] = m
    return Table(
        _conditions(result),
        ("strategy", "way", *titles, "exponent"),
        [[*way, *_cells(found, pools), _exponent(found)] for way, found in ways.items()],
        [_notes(found) for found in ways.values()],
        [name if kind == "ours" else f"{name} ({kind})" for name, kind in ways],
    )


def _conditions(result: StrategiesResult) -> str:
    place = name_place(result, result.threads)
    if result.device == "cpu" and result.threads == 1:
        place += ", by core time"
    return (
        f"{result.k:,} samples chosen, {result.labelled:,} labelled, {result.features} features, "
        f"{result.classes} classes; {place}; one trial each in a process of its own; "
        f"seed {result.seed}; a + b: seconds of preparing and of choosing"
    )


def _notes(found: dict[int, StrategyMeasurement]) -> str:
    picks = [f"{pool:,}: {m.picks}" for pool, m in found.items() if m.picks is not None]
    return "; ".join(dict.fromkeys(filter(None, [*map(_note, found.values()), *picks])))


def _note(m: StrategyMeasurement) -> str:
    words = say_status(m.status, m.note)
    return words if m.status in ("measured", "absent") else f"{m.pool:,}: {words}"


def _cells(found: dict[int, StrategyMeasurement], pools: list[int]) -> list[str]:
    return [cell for pool in pools for cell in _pair(found.get(pool))]


def _pair(m: StrategyMeasurement | None) -> tuple[str, str]:
    if m is None or m.choose_seconds is None or m.peak_mib is None:
        return (NONE if m is None else m.status, NONE)
    seconds = f"{m.choose_seconds:.3g}"
    if m.prepare_seconds is not None and m.prepare_seconds >= _WORTH_TELLING_SECONDS:
        seconds = f"{m.prepare_seconds:.3g} + {seconds}"
    return seconds, f"{m.peak_mib:,.0f}"


def _exponent(found: dict[int, StrategyMeasurement]) -> str:
    """Return the slope of log seconds of choosing over log samples, if there are two pools."""
    pairs = [(pool, m.choose_seconds) for pool, m in found.items() if m.choose_seconds]
    if len(pairs) < 2:
        return NONE
    sizes, seconds = zip(*pairs, strict=True)
    return f"{fit_exponent(sizes, seconds):.2f}"

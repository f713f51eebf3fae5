"""Tables of the documentation that are made from the measurements in ``results/bench``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from markdown_table import table

from steepest.bench.contenders.base import COMPILED, OURS, UNIT
from steepest.bench.cycle import CycleMeasurement, CycleResult, cycle_table
from steepest.bench.features import FeaturesResult
from steepest.bench.gradnorm_result import GradnormResult, Growth, Measurement, WorkloadResult
from steepest.bench.precision import PrecisionResult, precision_table
from steepest.bench.scale import ScaleResult
from steepest.bench.storage import NONE, Stored, Table, say_status, show_number
from steepest.bench.strategies import StrategiesResult, StrategyMeasurement, strategies_table
from steepest.bench.training import TrainingResult, training_table
from steepest.bench.workloads import names
from steepest.strategies import create
from steepest.strategies import names as strategies

R = TypeVar("R", bound=Stored)

RESULTS = Path(__file__).parent / "bench"
NOT_YET = "not measured yet\n"
_NOT_NORMS = {UNIT, OURS, "forward", *COMPILED}
_PACKAGES = (
    "steepest",
    "engine",
    "torch",
    "cuda",
    "python",
    "opacus",
    "backpack-for-pytorch",
    "scikit-activeml",
)


def performance(folder: Path = RESULTS) -> str:
    """Models by row and conditions by column: ours, and the quickest other way."""
    found = _gradnorm_results(folder)
    # Those about growth measure again what others have measured with all contenders.
    results = {p: r for p, r in found.items() if not any(load.growth for load in r.workloads)}
    if not results:
        return NOT_YET
    columns = _columns(results)
    measured = [name for name in names() if any(name in column for column in columns.values())]
    rows = [
        [f"`{name}`", *(_headline(column.get(name)) for column in columns.values())]
        for name in measured
    ]
    places = dict.fromkeys(_place(result, ("engine", "torch")) for result in results.values())
    versions = "[engine versions](docs/benchmarks.md#engine-versions)"
    return f"{table(('model', *columns), rows)}\nMeasured on: {'; '.join(places)} ({versions}).\n"


def benchmarks(folder: Path = RESULTS) -> str:
    """Every file in full."""
    results = _gradnorm_results(folder)
    return _join(map(_file, results.values()))


def library(folder: Path = RESULTS) -> str:
    """One row for each kind of model: the first call and later ones, beside the loop and vmap."""
    found = _read(folder, "library", GradnormResult)
    return _join(map(_library, found))


def _library(result: GradnormResult) -> str:
    header = ("model", "n", "ours, first call", "ours, later", "loop", "vmap", "memory", "note")
    rows = []
    for load in result.workloads:
        by_name = {m.contender: m for m in load.measurements}
        ours, loop, vmap = (by_name.get(name) for name in (OURS, "loop", "vmap"))
        ratios = [ours and ours.first_ratio, *(m and m.time_ratio for m in (ours, loop, vmap))]
        cells = [*(show_number(r, ".2f") for r in ratios)]
        memory = show_number(ours and ours.memory_ratio, ".2f")
        note = load.note or (ours.note if ours else "") or NONE
        rows.append([f"`{load.workload}`", str(load.batch), *cells, memory, note])
    place = f"{_place(result)}; best of {result.rounds} rounds by {result.clock} time"
    return f"{place}.\n\n`{result.command}`\n\n{table(header, rows)}"


def precision(folder: Path = RESULTS) -> str:
    """What each precision did to a ranking, file by file."""
    found = _read(folder, "precision", PrecisionResult)
    return _join(_shown(f"{r.preset}, {_where(r)}", [r], precision_table(r)) for r in found)


def training(folder: Path = RESULTS) -> str:
    """How fast trainings were, file by file."""
    found = _read(folder, "training", TrainingResult)
    return _join(_shown(f"{r.model}, {_where(r)}", [r], training_table(r)) for r in found)


def choosing(folder: Path = RESULTS) -> str:
    """What choosing took in time and memory; files of equal conditions and pools share a table."""
    alike: dict[tuple[object, ...], list[StrategiesResult]] = {}
    for r in _read(folder, "strategies", StrategiesResult):
        where = (_place(r), r.seed, r.threads, r.features, r.classes, r.labelled, r.k)
        alike.setdefault((*where, *_pools(r)), []).append(r)
    return _join(map(_choosing, alike.values()))


def cycle(folder: Path = RESULTS) -> str:
    """What every strategy added to one cycle, file by file."""
    found = _read(folder, "cycle", CycleResult)
    return _join(_shown(f"{r.config['data']['name']}, {_where(r)}", [r], _cycle(r)) for r in found)


def scale(folder: Path = RESULTS) -> str:
    """What Ray costs beside one process."""
    return _join(_plain(r, r.table()) for r in _read(folder, "scale", ScaleResult))


def ten_million(folder: Path = RESULTS) -> str:
    """What choosing from the features of ten million samples takes in one process."""
    shown = []
    for result in _read(folder, "ten-million", StrategiesResult):
        ours = [m for m in result.measurements if m.kind == "ours" and m.status == "measured"]
        made = strategies_table(replace(result, measurements=tuple(ours)))
        shown.append(_plain(result, made))
    return _join(shown)


def features(folder: Path = RESULTS) -> str:
    """Images a second of the feature cache."""
    return _join(_plain(r, r.table()) for r in _read(folder, "features", FeaturesResult))


def _plain(result: Stored, made: Table) -> str:
    rows = table(made.header, made.rows)
    return f"{rows}\n{made.conditions}. {_place(result)}.\n`{result.command}`\n"


def _read(folder: Path, kind: str, form: type[R]) -> list[R]:
    return [form.read(path) for path in sorted(folder.glob(f"{kind}-*.json"))]


def _join(shown: Iterable[str]) -> str:
    return "\n".join(shown) or NOT_YET


def _shown(title: str, results: Sequence[Stored], made: Table, *, complete: bool = False) -> str:
    first = results[0]
    unfinished = "" if complete else _unfinished(first)
    cells = [[*row, note or NONE] for row, note in zip(made.rows, made.notes, strict=True)]
    lines = [
        f"### {title}\n",
        f"{unfinished}{made.conditions}. {_place(first)}.\n",
        *(f"`{result.command}`\n" for result in results),
        table((*made.header, "note"), cells),
    ]
    return "\n".join(lines)


def _pools(result: StrategiesResult) -> list[int]:
    return sorted({m.pool for m in result.measurements})


def _choosing(results: Sequence[StrategiesResult]) -> str:
    best: dict[tuple[str, str, int], StrategyMeasurement] = {}
    for m in (m for result in results for m in result.measurements):
        key = (m.strategy, m.kind, m.pool)
        if m.status != "absent" and (key not in best or best[key].status == "unfinished"):
            best[key] = m
    rows = tuple(best[key] for key in sorted(best))
    complete = all(m.status != "unfinished" for m in rows)
    whole = replace(results[0], measurements=rows, complete=complete)
    title = f"{' and '.join(f'{pool:,}' for pool in _pools(whole))} samples, {_where(whole)}"
    threads = f", {_count(whole.threads, 'thread')}" if whole.device == "cpu" else ""
    made = _with_code(strategies_table(whole))
    return _shown(f"{title}{threads}", results, made, complete=complete)


def _unfinished(result: Stored) -> str:
    return "" if result.complete else "**Unfinished.** "


def _cycle(result: CycleResult) -> Table:
    notes = [_said_of_cycle(m) for m in result.measurements]
    return replace(_with_code(cycle_table(result)), notes=notes)


def _with_code(made: Table) -> Table:
    return replace(made, rows=[[f"`{row[0]}`", *row[1:]] for row in made.rows])


def _said_of_cycle(m: CycleMeasurement) -> str:
    """Return why there are no numbers, or what a variant such as ``vaal-10`` changes."""
    if m.status != "measured":
        return say_status(m.status, m.note)
    name = max((n for n in strategies() if m.strategy.startswith(n)), key=len, default="")
    usual = create(name).options() if name != m.strategy and name else m.options
    changed = [f"{key} = {value}" for key, value in m.options.items() if usual[key] != value]
    return ", ".join(changed) or NONE


def _gradnorm_results(folder: Path) -> dict[Path, GradnormResult]:
    return {path: GradnormResult.read(path) for path in sorted(folder.glob("gradnorm-*.json"))}


def _columns(results: dict[Path, GradnormResult]) -> dict[str, dict[str, WorkloadResult]]:
    """Return workloads by name under the conditions of their file.

    Files of equal conditions share a column unless they measure the same model.
    """
    columns: dict[str, dict[str, WorkloadResult]] = {}
    for path, result in results.items():
        loads = {load.workload: load for load in result.workloads}
        title = _title(result)
        if loads.keys() & columns.get(title, {}).keys():
            title = f"{title} ({path.stem})"
        columns.setdefault(title, {}).update(loads)
    return columns


def _title(result: GradnormResult) -> str:
    on_cpu = result.device == "cpu"
    where = f"CPU, {_count(result.threads, 'thread')}" if on_cpu else _where(result)
    last = any("last" in load.layout for load in result.workloads)
    return f"{where}, {result.precision}{', channels last' if last else ''}"


def _where(result: Stored) -> str:
    return "CPU" if result.device == "cpu" else str(result.environment["device"])


def _headline(load: WorkloadResult | None) -> str:
    measurements = () if load is None else load.measurements
    ours = next((m for m in measurements if m.contender == OURS), None)
    if load is None or ours is None:
        return NONE
    if ours.time_ratio is None:
        return ours.status
    others = [m for m in load.measurements if m.contender not in _NOT_NORMS and m.time_ratio]
    best = min(others, key=lambda m: m.time_ratio or 0, default=None)
    # Where but one other way was run, it is no winner.
    alone = " alone" if len(others) == 1 else ""
    peer = "" if best is None else f" ({best.contender}{alone} {best.time_ratio:.2f})"
    return f"**{ours.time_ratio:.2f}**, {show_number(ours.memory_ratio, '.2f')}{peer}"


def _place(result: Stored, packages: tuple[str, ...] = _PACKAGES) -> str:
    environment = result.environment
    on_cpu = result.device == "cpu"
    name = (environment.get("processor") or "CPU") if on_cpu else environment["device"]
    known = {"engine": 1, **environment}  # the first engine had no number
    versions = [f"{p} {known[p]}" for p in packages if known.get(p)]
    return ", ".join([name, *versions])


def _file(result: GradnormResult) -> str:
    models = ", ".join(load.workload for load in result.workloads)
    growth = ", growth" if any(load.growth for load in result.workloads) else ""
    clock = "core time" if result.clock == "cpu" else "wall-clock time"
    how = (
        f"{_count(result.threads, 'thread')}; {result.precision} on all sides; "
        f"best of {_count(result.rounds, 'round')} by {clock}; seed {result.seed}"
    )
    lines = [
        f"### {_title(result)}: {models}{growth}\n",
        f"{_unfinished(result)}{_place(result)}; {how}.\n",
        f"`{result.command}`\n",
        *(_workload(load) for load in result.workloads),
    ]
    return "\n".join(lines)


def _workload(load: WorkloadResult) -> str:
    shape = " × ".join(map(str, load.sample_shape))
    title = (
        f"**{load.workload}**: {load.parameters / 1e6:.2f} M parameters, n = {load.batch} samples "
        f"of {shape}, {load.layout}; errors over {load.checked} samples\n"
    )
    header = ("contender", "time", "samples/s", "memory", "peak MiB", "largest error", "note")
    parts = [title, table(header, [_row(m) for m in load.measurements])]
    parts += [f"{line}\n" for line in (_compiled(load), load.note) if line]
    if load.growth:
        parts.append(_growth(load.growth))
    return "\n".join(parts)


def _row(m: Measurement) -> list[str]:
    return [
        f"`{m.contender}`",
        show_number(m.time_ratio, ".2f"),
        show_number(m.samples_per_second, ",.3g" if (m.samples_per_second or 0) < 100 else ",.0f"),
        show_number(m.memory_ratio, ".2f"),
        show_number(m.peak_mib, ",.1f"),
        show_number(m.relative_error, ".1e"),
        say_status(m.status, m.note) or NONE,
    ]


def _compiled(load: WorkloadResult) -> str:
    """Compare ours with the compiled plain pass, the hardest opponent."""
    seconds = {m.contender: m.seconds_per_sample for m in load.measurements}
    plain = seconds.get(COMPILED[0])
    found = {name: seconds.get(name) for name in (OURS, COMPILED[1])}
    ratios = [f"`{name}` {s / plain:.2f}" for name, s in found.items() if s and plain]
    return f"As multiples of `{COMPILED[0]}`: {', '.join(ratios)}." if ratios else ""


def _growth(growth: tuple[Growth, ...]) -> str:
    batches = [
        (size, *(f"{1e3 * g.batch_seconds[i]:.4g}" for g in growth))
        for i, size in enumerate(growth[0].batches)
    ]
    pools = [
        (size, *(f"{g.pool_seconds[i]:.4g}" for g in growth))
        for i, size in enumerate(growth[0].pools)
    ]
    fits = ", ".join(f"`{g.contender}` {g.pool_exponent:.3f}" for g in growth)
    names = [f"`{g.contender}`" for g in growth]
    per_batch = table(("batch", *(f"{name}, ms/sample" for name in names)), batches)
    per_pool = table(("pool", *(f"{name}, s" for name in names)), pools)
    return f"{per_batch}\n{per_pool}\nTime grows with the pool to the power of: {fits}.\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

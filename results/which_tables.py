"""Tables of ``docs/which-strategy.md``, made from the records in ``results/which-strategy``.

Strategies are held against each other over the seeds that both have. Intervals are of 95 %, by
Student's t; p-values are corrected by Holm within a setting. As a program it packs the folders that
the plan wrote, and writes their tables into ``results/README.md``:

    PYTHONPATH=results python results/which_tables.py FOLDER
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
from findings_records import RESULTS, areas, common_seeds, difference, read
from markdown_table import table

from steepest.experiment.comparison import Comparison
from steepest.experiment.report import read_comparison
from steepest.experiment.statistics import PairedTest, holm
from steepest.experiment.study_plan import read_plan

FOLDER = "which-strategy"
OURS = "steepest"
KNOWN = ("random", "entropy", "margin", "badge", "typiclust", "core-set")
"""What the default is held against."""

_FEWEST = 10
_LEVEL = 0.05
_NOT_YET = "Not measured yet."


@cache
def settings() -> Mapping[str, Comparison]:
    """Return the settings in the order of the plan, with the strategies that have enough runs."""
    plan = read_plan(RESULTS.parent / "examples" / f"{FOLDER}.toml")
    found = {}
    for group in plan.groups:
        if (RESULTS / FOLDER / f"{group.name}.tar.xz").exists():
            comparison = read(f"{FOLDER}/{group.name}")
            measured = [
                name
                for name in comparison.strategies
                if len(comparison.complete_seeds(name)) >= _FEWEST
            ]
            if OURS in measured:
                found[group.name] = replace(comparison, strategies=tuple(measured))
    return found


@cache
def contrasts(setting: str) -> Mapping[tuple[str, str], tuple[PairedTest, float]]:
    """Return each pair's test of the areas, with p-values corrected over all pairs of a setting."""
    comparison = settings()[setting]
    names = comparison.compared
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    found = [difference(comparison, a, b) for a, b in pairs]
    adjusted = holm([None if test is None else test.t_p for test in found])
    one_way = {
        pair: (test, 1.0 if p is None else p)
        for pair, test, p in zip(pairs, found, adjusted, strict=True)
        if test is not None
    }
    other = {(b, a): (difference(comparison, b, a), p) for (a, b), (_, p) in one_way.items()}
    return {**one_way, **{pair: (t, p) for pair, (t, p) in other.items() if t is not None}}


def overview() -> str:
    """The area of every strategy in every setting."""
    names = _strategies()
    rows = []
    for setting, comparison in settings().items():
        seeds = common_seeds(comparison, *comparison.compared)
        means = {name: float(areas(comparison, name, seeds).mean()) for name in comparison.compared}
        best = max(means.values())
        cells = [_bold(means.get(name), best) for name in names]
        rows.append((_shown(setting), _each(comparison), len(seeds), *cells))
    return _table(("setting", "labels per class", "n", *(f"`{name}`" for name in names)), rows)


def gains() -> str:
    """The default less each known strategy, in points of the area."""
    rows = []
    for setting in settings():
        cells = [_told(setting, OURS, other) for other in KNOWN]
        rows.append((_shown(setting), *cells))
    return _table(("setting", *(f"less `{name}`" for name in KNOWN)), rows)


def parts() -> str:
    """The default less each strategy of its own kind."""
    others = ("gradnorm-herding", "gradnorm-design", "max-herding", "uncertainty-herding")
    rows = [
        (_shown(setting), *(_told(setting, OURS, other) for other in others))
        for setting in settings()
    ]
    return _table(("setting", *(f"less `{name}`" for name in others)), rows)


def penalties() -> str:
    """In how many settings the row's strategy is significantly above the column's."""
    names = _strategies()
    wins = dict.fromkeys(permutations(names, 2), 0)
    for setting in settings():
        for pair, (test, p) in contrasts(setting).items():
            wins[pair] += p < _LEVEL and test.mean_difference > 0
    rows = [
        (
            f"`{a}`",
            *("" if a == b else wins[a, b] for b in names),
            sum(wins[a, b] for b in names if b != a),
        )
        for a in names
    ]
    beaten = [sum(wins[a, b] for a in names if a != b) for b in names]
    rows.append(("beaten", *beaten, ""))
    return _table(("above", *(f"`{name}`" for name in names), "sum"), rows)


def losses() -> str:
    """Where the default is significantly below another strategy."""
    rows = []
    for setting in settings():
        for (a, b), (test, p) in contrasts(setting).items():
            if a == OURS and p < _LEVEL and test.mean_difference < 0:
                rows.append((_shown(setting), f"`{b}`", _difference(test, p), f"{p:.3f}"))
    return _table(("setting", "strategy", "default less it", "p (Holm)"), rows, "In none of them.")


def pooled() -> str:
    """Mean over settings of the default less each other one, by number of labels."""
    rows = []
    for size in ("few", "some", "many"):
        chosen = [s for s in settings() if size in s.split("-")]
        if not chosen:
            continue
        cells = []
        for other in KNOWN:
            found = [contrasts(s)[OURS, other] for s in chosen if (OURS, other) in contrasts(s)]
            above = sum(p < _LEVEL and t.mean_difference > 0 for t, p in found)
            below = sum(p < _LEVEL and t.mean_difference < 0 for t, p in found)
            mean = np.mean([t.mean_difference for t, _ in found])
            cells.append(f"{mean:+.2f} ({above} / {len(found) - above - below} / {below})")
        rows.append((size, len(chosen), *cells))
    return _table(("labels", "settings", *(f"less `{name}`" for name in KNOWN)), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "which overview": overview,
    "which gains": gains,
    "which parts": parts,
    "which penalties": penalties,
    "which losses": losses,
    "which pooled": pooled,
}


def _strategies() -> list[str]:
    names: dict[str, None] = {}
    for comparison in settings().values():
        names |= dict.fromkeys(comparison.compared)
    return sorted(names, key=lambda name: (name != OURS, name in KNOWN, name))


def _shown(setting: str) -> str:
    data, size, *more = setting.split("-")
    said = {"noise": "20 % wrong labels", "tail": "long tail"}
    sets = {"cifar10": "CIFAR-10", "caltech101": "Caltech-101", "digits": "raw digits"}
    return ", ".join([f"{sets[data]}, {size}", *(said[word] for word in more)])


def _each(comparison: Comparison) -> str:
    classes = 101 if "caltech101" in str(comparison.config["data"]["name"]) else 10
    low, high = comparison.budgets[0] / classes, comparison.budgets[-1] / classes
    return f"{low:.0f} – {high:.0f}"


def _told(setting: str, one: str, other: str) -> str:
    found = contrasts(setting).get((one, other))
    return "–" if found is None else _difference(*found)


def _difference(test: PairedTest, p: float) -> str:
    if test.low is None or test.high is None:
        return f"{test.mean_difference:+.2f}"
    half = (test.high - test.low) / 2
    said = f"{test.mean_difference:+.2f} ± {half:.2f}"
    return f"**{said}**" if p < _LEVEL else said


def _bold(value: float | None, best: float) -> str:
    if value is None:
        return "–"
    return f"**{value:.2f}**" if value > best - 0.005 else f"{value:.2f}"


def _table(header: tuple[str, ...], rows: list[tuple[object, ...]], none: str = _NOT_YET) -> str:
    return table(header, rows) if rows else f"{none if settings() else _NOT_YET}\n"


def pack(folder: Path, only: str = "*") -> None:
    """Pack the complete runs of each setting, and write their tables into the README."""
    (RESULTS / FOLDER).mkdir(exist_ok=True)
    for group in sorted(path.parent for path in folder.glob(f"{only}/comparison.json")):
        comparison = read_comparison(group)
        if len(common_seeds(comparison, *comparison.strategies)) < _FEWEST:
            continue
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / group.name
            skipped = shutil.ignore_patterns("weights", "shared", "*.lock")
            shutil.copytree(group, copy, ignore=skipped)
            for run in copy.glob("runs/*/seed-*"):
                if not comparison.runs[run.parent.name, int(run.name[5:])].complete:
                    shutil.rmtree(run)
            out = RESULTS / FOLDER / f"{group.name}.tar.xz"
            command = [sys.executable, "-m", "steepest", "pack", str(copy), "--out", str(out)]
            out.unlink(missing_ok=True)
            subprocess.run(command, check=True)  # noqa: S603 - our own command


def _write_readme() -> None:
    path = RESULTS / "README.md"
    text = path.read_text(encoding="utf-8")
    made = "".join(_readme_tables())
    text = re.sub(
        r"(<!-- which-strategy -->\n).*?(<!-- end of which-strategy -->)",
        lambda found: f"{found[1]}\n{made}{found[2]}",
        text,
        flags=re.DOTALL,
    )
    path.write_text(text, encoding="utf-8")


def _readme_tables() -> Iterator[str]:
    for archive in sorted((RESULTS / FOLDER).glob("*.tar.xz")):
        name = f"{FOLDER}/{archive.name.removesuffix('.tar.xz')}"
        comparison = read_comparison(archive)
        rows = []
        for strategy in comparison.strategies:
            seeds = comparison.complete_seeds(strategy)
            means = 100 * comparison.curves(strategy, seeds).mean(0)
            rows.append((strategy, len(seeds), *(f"{value:.2f}" for value in means)))
        yield f"<!-- table: {name} -->\n"
        yield (
            "| "
            + " | ".join(("labels", "n", *(f"{budget:.0f}" for budget in comparison.budgets)))
            + " |\n"
        )
        yield "|" + "---|" * (2 + len(comparison.budgets)) + "\n"
        yield "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1:]:
        pack(Path(sys.argv[1]), *sys.argv[2:3])
    _write_readme()

"""How several comparisons are shown: which runs there are, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.cli.outcome import show_outcome
from steepest.experiment.compare import Comparing, Run
from steepest.report.text_table import text_table


def show_runs(groups: Mapping[str, Comparing]) -> None:
    """Print every run, how far it is, and how many cycles are left.

    Args:
        groups: Comparisons by name; a nameless one has no column for it.
    """
    named = any(groups)
    header = (*(("group",) if named else ()), "strategy", "seed", "state")
    rows = [
        (*((name,) if named else ()), run.label, run.config.seed, _state(run))
        for name, comparing in groups.items()
        for run in comparing.runs
    ]
    print(text_table(header, rows))
    print(f"\n{_left(list(groups.values()))}")


def show_groups(comparisons: Sequence[Comparing], *, report: bool) -> None:
    """Print the table of each comparison, and what is left of all."""
    for comparing in comparisons:
        print(f"{comparing.out.name}:")
        show_outcome(comparing.out, report=report)
        print()
    print(_left(comparisons))


def _state(run: Run) -> str:
    done, cycles = run.done, run.config.loop.cycles
    if done >= cycles:
        return "complete"
    return f"{done} of {cycles} cycles" if done else "not begun"


def _left(comparisons: Sequence[Comparing]) -> str:
    runs = [run for comparing in comparisons for run in comparing.runs]
    cycles = sum(max(0, run.config.loop.cycles - run.done) for run in runs)
    whole = sum(run.complete for run in runs)
    told = f"{whole} of {len(runs)} runs complete"
    if not cycles:
        return told
    return f"{told}, {cycles} {'cycle' if cycles == 1 else 'cycles'} left"

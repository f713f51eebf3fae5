"""Output of a plan of comparisons: its runs and their results."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.cli.outcome import show_outcome
from steepest.core.wording import counted
from steepest.experiment.comparison_runs import Comparing, Run, all_runs
from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.tables import text_table


def show_runs(comparisons: Sequence[Comparing], *, named: bool) -> None:
    """Print every run, how far it is, and how many cycles are left.

    Args:
        comparisons: What the runs are of.
        named: Whether to say which one, by the name of its folder.
    """
    header = (*(("group",) if named else ()), "strategy", "seed", "state")
    rows = [
        (*((run.group,) if named else ()), run.label, run.config.seed, _state(run))
        for run in all_runs(comparisons)
    ]
    print(text_table(header, rows))
    print(f"\n{_left(comparisons)}")


def show_groups(
    comparisons: Sequence[Comparing],
    *,
    report: bool,
    baseline: str | None = None,
    metric: str | None = None,
) -> None:
    """Print the table of each comparison, and the remaining runs.

    Args:
        comparisons: What to show.
        report: Whether to write the pages.
        baseline: The strategy others are compared with where it has a complete run, and random
            elsewhere; the tables say which.
        metric: What is compared; the headline of each one's task if not given.
    """
    for out in dict.fromkeys(comparing.out for comparing in comparisons):
        print(f"{out.name}:")
        known = baseline is not None and baseline in read_comparison(out).compared
        show_outcome(out, report=report, baseline=baseline if known else None, metric=metric)
        print()
    print(_left(comparisons))


def _state(run: Run) -> str:
    done, cycles = run.done, run.config.loop.cycles
    if done >= cycles:
        return "complete"
    return f"{done} of {cycles} cycles" if done else "not begun"


def _left(comparisons: Sequence[Comparing]) -> str:
    runs = all_runs(comparisons)
    cycles = sum(max(0, run.config.loop.cycles - run.done) for run in runs)
    whole = sum(run.complete for run in runs)
    told = f"{whole} of {counted(len(runs), 'run')} complete"
    if not cycles:
        return told
    return f"{told}, {counted(cycles, 'cycle')} left"

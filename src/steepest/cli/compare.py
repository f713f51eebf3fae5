"""Compare strategies fairly: per seed the same initial set and weights, random always among them.

Complete runs are kept, so that the same command resumes, and more strategies or seeds add to it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from steepest.cli.arguments import (
    add_config,
    add_shared,
    config_of,
    deadline_of,
    names_of,
    seeds_of,
)
from steepest.cli.outcome import show_outcome
from steepest.cli.terminal import on_one_line
from steepest.core.progress import show_progress
from steepest.core.wording import counted
from steepest.errors import FailedRunsError, InputError, UnknownNameError
from steepest.experiment.compare import run_missing
from steepest.experiment.comparison import check_metric
from steepest.experiment.comparison_runs import Comparing, Run, all_runs
from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.tables import text_table
from steepest.experiment.study_plan import Plan, read_plan
from steepest.selecting import OnRay

EXAMPLES = (
    "steepest compare digits --strategies margin,entropy-gradnorm --seeds 5 --out digits",
    "steepest compare mine.toml --strategies margin,myways:Gini --seeds 3,4 --out mine",
    "steepest compare --plan plan.toml --list --out study",
)

_SEEDS = "5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_config(parser, required=False)
    parser.add_argument(
        "--strategies",
        metavar="A,B",
        help="names, or LABEL=NAME(OPTION=VALUE,...), separated by commas; random is added. With "
        "--plan: only these of its strategies",
    )
    parser.add_argument(
        "--seeds",
        metavar="N",
        help=f"how many seeds (0 to N − 1), or a list such as 3,4,7 (default: {_SEEDS}). With "
        "--plan: only these of its seeds",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="strategy to compare the others with, in every group of a plan that has it "
        "(default: random)",
    )
    add_shared(parser, "--metric")
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="run the comparisons of a TOML file, each in a folder below --out",
    )
    parser.add_argument(
        "--groups",
        metavar="A,B",
        help="only these groups of the plan",
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help=argparse.SUPPRESS,  # complete runs are always left alone
    )
    parser.add_argument(
        "--list",
        "--dry-run",
        dest="only_list",
        action="store_true",
        help="list all runs and their progress without running any",
    )
    add_shared(parser, "--jobs", "--engine", "--address", "--member-jobs")
    parser.add_argument(
        "--no-report", dest="report", action="store_false", help="write no HTML report at the end"
    )
    add_shared(parser, "--out", required=True)
    add_shared(parser, "--minutes", "--track", "--quiet")
    parser.set_defaults(usage_error=parser.error)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    _check_usage(arguments)
    if arguments.engine == "here" and arguments.address is not None:
        raise InputError("--address is for --engine ray: give both, or leave it out")
    deadline_of(arguments)  # Refuses what is no time, for a mere list as well.
    comparisons = _comparisons(arguments)
    _check_baseline(arguments.baseline, comparisons)
    check_metric(arguments.metric, [comparing.config.task.name for comparing in comparisons])
    if arguments.only_list:
        for comparing in comparisons:
            comparing.check()
        _show_runs(comparisons, named=arguments.plan is not None)
        return 0

    def run() -> None:
        run_missing(
            comparisons,
            progress=show_progress(enabled=not arguments.quiet),
            jobs=arguments.jobs,
            member_jobs=arguments.member_jobs,
            deadline=deadline_of(arguments),
            command=arguments.command_line,
            engine=OnRay(arguments.address) if arguments.engine == "ray" else "here",
            track=arguments.track,
        )

    def show() -> None:
        how = {name: getattr(arguments, name) for name in ("report", "baseline", "metric")}
        if arguments.plan is None:
            show_outcome(arguments.out, **how)
        else:
            _show_groups(comparisons, **how)

    return _showing(run, show)


def _comparisons(arguments: argparse.Namespace) -> list[Comparing]:
    if arguments.plan is not None:
        return _planned(arguments).below(arguments.out)
    seeds = seeds_of(_SEEDS if arguments.seeds is None else arguments.seeds)
    return [Comparing(config_of(arguments), [arguments.strategies], seeds, arguments.out)]


def _planned(arguments: argparse.Namespace) -> Plan:
    """Return the plan, or the requested part of it."""
    plan = read_plan(arguments.plan)
    groups, labels, seeds = arguments.groups, arguments.strategies, arguments.seeds
    return plan.part(
        None if groups is None else names_of(groups, "--groups"),
        None if labels is None else names_of(labels, "--strategies"),
        None if seeds is None else seeds_of(seeds),
    )


def _showing(run: Callable[[], None], show: Callable[[], None]) -> int:
    """Run, show the results even if some runs failed, and finally name those.

    Returns:
        The exit code.
    """
    problems: tuple[str, ...] = ()
    try:
        run()
    except FailedRunsError as error:
        problems = error.problems
    try:
        show()
    finally:
        for problem in problems:
            print(f"steepest: error: {on_one_line(problem)}", file=sys.stderr)
        if problems:
            print("The same command tries what failed again, and nothing else.", file=sys.stderr)
    return 2 if problems else 0


def _check_baseline(name: str | None, comparisons: Sequence[Comparing]) -> None:
    """Refuse a baseline that nothing will be known of, before anything is run."""
    if name is None:
        return
    labels = {label for comparing in comparisons for label in comparing.check()["strategies"]}
    if name not in labels:
        raise UnknownNameError("baseline", name, labels)


def _check_usage(arguments: argparse.Namespace) -> None:
    """End with the command's usage if its arguments do not belong together."""
    if arguments.plan is None:
        needed = {"CONFIG_OR_PRESET (or --plan)": "config", "--strategies": "strategies"}
        absent = [said for said, name in needed.items() if getattr(arguments, name) is None]
        if absent:
            arguments.usage_error(f"the following arguments are required: {', '.join(absent)}")
        if arguments.groups is not None:
            arguments.usage_error("--groups: only with --plan, which has groups")
        return
    others = {
        "CONFIG_OR_PRESET": arguments.config,
        "--set": arguments.changes,
        "--fast and --smoke": arguments.variant,
    }
    given = [said for said, value in others.items() if value]
    if given:
        arguments.usage_error(f"{', '.join(given)}: not with --plan, which says it in its groups")


def _show_runs(comparisons: Sequence[Comparing], *, named: bool) -> None:
    """Print every run, its progress, and how many cycles are left.

    Args:
        comparisons: The comparisons.
        named: Whether to name the folder of each run's comparison.
    """
    header = (*(("group",) if named else ()), "strategy", "seed", "state")
    rows = [
        (*((run.group,) if named else ()), run.label, run.config.seed, _state(run))
        for run in all_runs(comparisons)
    ]
    print(text_table(header, rows))
    print(f"\n{_left(comparisons)}")


def _show_groups(
    comparisons: Sequence[Comparing],
    *,
    report: bool,
    baseline: str | None = None,
    metric: str | None = None,
) -> None:
    """Print the table of each comparison, and the remaining runs.

    Args:
        comparisons: The comparisons to show.
        report: Whether to write the pages.
        baseline: The strategy others are compared with where it has a complete run, and random
            elsewhere; the tables say which.
        metric: The metric compared; by default the headline of each one's task.
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

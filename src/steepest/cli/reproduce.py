"""Reproduce the paper's tables and figures next to the published numbers.

Artefacts share runs; existing ones are taken from --from, and others resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steepest.cli.arguments import add_shared, deadline_of, names_of, seeds_of
from steepest.core.progress import show_progress
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.experiment.report.tables import text_table

if TYPE_CHECKING:
    from steepest.paper.artefact import Artefact
    from steepest.paper.missing_runs import Wanted
    from steepest.paper.workspace import Workspace

EXAMPLES = ("steepest reproduce all --smoke --out reproduced",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    from steepest.paper.level import FREE

    parser.add_argument(
        "artefacts", nargs="*", metavar="ARTEFACT", help="such as table-3, or all; see --list"
    )
    parser.add_argument(
        "--smoke",
        dest="level",
        action="store_const",
        const="smoke",
        default="paper",
        help="a quick test of everything on a CPU instead of the paper's protocol",
    )
    parser.add_argument(
        "--preset",
        dest="level",
        default="paper",
        metavar="NAME",
        help="smoke or paper (default: paper, the full protocol)",
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="use complete runs in this folder and below; may be repeated",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for results; the same folder resumes; required unless --list",
    )
    parser.add_argument(
        "--list",
        dest="only_list",
        action="store_true",
        help="list artefacts and the runs they need without starting any",
    )
    parser.add_argument(
        "--strategies",
        metavar="A,B",
        help="only these strategies of an artefact",
    )
    parser.add_argument("--no-runs", action="store_true", help="use existing runs only")
    parser.add_argument(
        "--seeds", metavar="N", help="maximum number of seeds, or a list such as 0,2"
    )
    parser.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"a setting that does not change the protocol ({', '.join(FREE)}); for one data set, "
        "one that the paper leaves open, as in caltech101:model.weights=FILE; or an option of a "
        "strategy, as in vaal:published=true",
    )
    add_shared(parser, "--jobs", "--minutes", "--quiet")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.paper.level import load_level
    from steepest.paper.missing_runs import wanted_runs
    from steepest.paper.produce import choose, page_of, produce
    from steepest.paper.workspace import Workspace
    from steepest.pool import FileLock

    artefacts = choose(_names(arguments))
    if arguments.out is None and not arguments.only_list:
        raise InputError("--out DIR is missing: it says where results go")
    seeds = None if arguments.seeds is None else seeds_of(arguments.seeds)
    work = Workspace(
        level=load_level(arguments.level, arguments.changes, seeds),
        out=Path("." if arguments.out is None else arguments.out).absolute(),
        sources=[source.absolute() for source in arguments.sources],
        progress=show_progress(enabled=not arguments.quiet),
        deadline=deadline_of(arguments),
        only=_only(arguments.strategies, artefacts),
    )
    if arguments.only_list:
        from steepest.paper.produce import list_artefacts

        print(list_artefacts(work, artefacts))
        return 0
    work.check()
    command = arguments.command_line
    with FileLock(work.out / "reproduce", shown=work.out):
        made = produce(
            artefacts, work, jobs=arguments.jobs, command=command, runs=not arguments.no_runs
        )
    rows = [(one.artefact.name, one.artefact.paper, one.state, len(one.runs)) for one in made]
    print(text_table(("artefact", "in the paper", "state", "runs"), rows))
    _tell_of_runs(work, wanted_runs(work, artefacts), making=not arguments.no_runs)
    print(f"\nIndex: {work.out / 'index.html'}")
    if len(made) == 1:
        print(f"Page:  {page_of(work.out, made[0])}")
    return 0


def _tell_of_runs(work: Workspace, runs: Sequence[Wanted], *, making: bool) -> None:
    """Report the number of complete runs, and which others the same command can make."""
    left = [run for run in runs if not run.complete]
    told = {
        run.folder: problem for run in left if (problem := work.problem_of(run.group, run.strategy))
    }
    for problem in dict.fromkeys(told.values()):
        print(f"not there: {problem}")
    more = "; the same command goes on with the others" if making and len(told) < len(left) else ""
    print(f"{len(runs) - len(left)} of {counted(len(runs), 'run')} complete{more}")


def _only(text: str | None, artefacts: Sequence[Artefact]) -> list[str]:
    """Return names of strategies, each of which there is, and some of which artefacts need."""
    from steepest.strategies.base import STRATEGIES

    names = [] if text is None else list(names_of(text, "--strategies"))
    for name in names:
        STRATEGIES.get(name)
    known = {name for one in artefacts for need in one.needs() for name in need.strategies}
    if names and not known & set(names):
        about = f"are about {', '.join(sorted(known))}" if known else "need no runs"
        raise InputError(f"--strategies {text}: the artefacts {about}")
    return names


def _names(arguments: argparse.Namespace) -> list[str]:
    names: list[str] = arguments.artefacts
    if not names and not arguments.only_list:
        raise InputError("name an artefact, or all: steepest reproduce --list shows them")
    return names or ["all"]

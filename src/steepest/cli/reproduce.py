"""Make the paper's tables and figures again, beside what it published.

Runs are shared between artefacts, taken from --from where they are there, and resumed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from steepest.cli.arguments import add_minutes, add_quiet, deadline_of
from steepest.errors import InputError
from steepest.progress import show_progress
from steepest.report.text_table import text_table

NAME = "reproduce"
HELP = "make the paper's tables and figures again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "artefacts", nargs="*", metavar="ARTEFACT", help="such as table-3, or all; see --list"
    )
    parser.add_argument(
        "--preset",
        default="paper",
        metavar="NAME",
        help="paper: its protocol; smoke: a trial of the whole path on a CPU (default: paper)",
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="take complete runs that are below this folder; may be repeated",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go; resumes there")
    parser.add_argument(
        "--list",
        dest="only_list",
        action="store_true",
        help="show all artefacts, the runs they need and what is there, and make nothing",
    )
    parser.add_argument(
        "--strategies",
        metavar="A,B",
        help="look at these strategies alone, of those that an artefact is about",
    )
    parser.add_argument(
        "--no-runs", action="store_true", help="make no run: take those that are there"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="so many seeds at most")
    parser.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what leaves the protocol as it is: threads, device, training.amp, training.compile",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="runs side by side")
    add_minutes(parser)
    add_quiet(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.reproduce.level import load_level
    from steepest.reproduce.making import wanted_runs
    from steepest.reproduce.produce import choose, page_of, produce
    from steepest.reproduce.workspace import Workspace

    artefacts = choose(_names(arguments))
    if arguments.out is None and not arguments.only_list:
        raise InputError("--out DIR is missing: it says where results go")
    work = Workspace(
        level=load_level(arguments.preset, arguments.changes, arguments.seeds),
        out=Path("." if arguments.out is None else arguments.out).absolute(),
        sources=[source.absolute() for source in arguments.sources],
        progress=show_progress(enabled=not arguments.quiet),
        deadline=deadline_of(arguments),
        only=_only(arguments.strategies),
    )
    if arguments.only_list:
        from steepest.reproduce.listing import list_artefacts

        print(list_artefacts(work, artefacts))
        return 0
    command = shlex.join(["steepest", *sys.argv[1:]])
    made = produce(
        artefacts, work, jobs=arguments.jobs, command=command, runs=not arguments.no_runs
    )
    rows = [(one.artefact.name, one.artefact.paper, one.state, len(one.runs)) for one in made]
    print(text_table(("artefact", "in the paper", "state", "runs"), rows))
    for told in dict.fromkeys(work.problems.values()):
        print(f"not there: {told}")
    runs = wanted_runs(work, artefacts)
    done = sum(run.complete for run in runs)
    more = "" if done == len(runs) else "; the same command goes on with the others"
    print(f"{done} of {len(runs)} runs complete{more}")
    print(f"\nIndex: {work.out / 'index.html'}")
    if len(made) == 1:
        print(f"Page:  {page_of(work.out, made[0])}")
    return 0


def _only(text: str | None) -> list[str]:
    """Return names of strategies, each of which there is."""
    from steepest.strategies.base import STRATEGIES

    names = [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if text is not None and not names:
        raise InputError(f"--strategies {text!r}: give names separated by commas")
    for name in names:
        STRATEGIES.get(name)
    return names


def _names(arguments: argparse.Namespace) -> list[str]:
    names: list[str] = arguments.artefacts
    if not names and not arguments.only_list:
        raise InputError("name an artefact, or all: steepest reproduce --list shows them")
    return names or ["all"]

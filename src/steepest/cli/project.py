"""Write a labelling project as JSON lines, or make a project of such a file.

Samples, questions, answers, rounds, models and label maps are all there: out and in gives the same
project. Others may label while it is written.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from steepest.core.wording import counted

EXAMPLES = (
    "steepest project export photos/.steepest team.jsonl",
    "steepest project import team.jsonl elsewhere/",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, one sub-command each."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    out = actions.add_parser("export", help="write a project as JSON lines")
    out.description = "Write all of a project as JSON lines."
    out.add_argument("folder", type=Path, metavar="DIR", help="the project's folder")
    out.add_argument(
        "file", type=Path, metavar="FILE", help="the file to write, such as team.jsonl"
    )
    out.add_argument(
        "--no-weights", action="store_true", help="leave out the weights of the models"
    )
    out.set_defaults(execute_action=_export)
    back = actions.add_parser("import", help="make a project of such a file")
    back.description = "Make a project of what `steepest project export` wrote."
    back.add_argument("file", type=Path, metavar="FILE", help="the file")
    back.add_argument("folder", type=Path, metavar="DIR", help="the project's folder, made by this")
    back.set_defaults(execute_action=_import)


def execute(arguments: argparse.Namespace) -> int:
    """Run the action that was named."""
    code: int = arguments.execute_action(arguments)
    return code


def _export(arguments: argparse.Namespace) -> int:
    from steepest.labelling.project.archive import write_archive

    weights = not arguments.no_weights
    done = write_archive(arguments.folder, arguments.file, weights=weights)
    print(f"{arguments.file}: {_say(done)}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from steepest.labelling.project.archive import read_archive

    done = read_archive(arguments.file, arguments.folder)
    print(f"{arguments.folder}: {_say(done)}")
    return 0


def _say(counts: Counter[str]) -> str:
    return ", ".join(
        (
            counted(counts["images"], "sample"),
            counted(counts["answers"], "answer"),
            counted(counts["rounds"] + counts["batches"], "round"),
            counted(counts["files"], "file"),
        )
    )

"""Export a labelling project, or create one from such an export.

By default all of it is exported, as JSON lines: samples, questions, answers, rounds, models and
label maps, from which `import` creates the same project. With --format, its labels alone are
exported for other programs. Others may label meanwhile.
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
    from steepest.labelling.formats.base import FORMATS

    out = actions.add_parser("export", help="export a project, or its labels")
    out.description = "Export a project as JSON lines, or its labels in another format."
    out.add_argument("folder", type=Path, metavar="DIR", help="the project's folder")
    out.add_argument(
        "file", type=Path, metavar="FILE", help="the file or folder to write, such as team.jsonl"
    )
    out.add_argument(
        "--no-weights", action="store_true", help="leave out the weights of the models"
    )
    out.add_argument(
        "--format",
        choices=FORMATS.names(),
        help="export the labels alone, in this format (default: the whole project)",
    )
    out.set_defaults(execute=_export)
    back = actions.add_parser("import", help="create a project from an exported one")
    back.description = "Create a project from what `steepest project export` wrote."
    back.add_argument("file", type=Path, metavar="FILE", help="the file")
    back.add_argument("folder", type=Path, metavar="DIR", help="the folder of the new project")
    back.set_defaults(execute=_import)


def _export(arguments: argparse.Namespace) -> int:
    if arguments.format is not None:
        return _export_labels(arguments.folder, arguments.format, arguments.file)
    from steepest.labelling.project.archive import write_archive

    weights = not arguments.no_weights
    done = write_archive(arguments.folder, arguments.file, weights=weights)
    print(f"{arguments.file}: {_say(done)}")
    return 0


def _export_labels(folder: Path, kind: str, file: Path) -> int:
    from steepest.labelling.exchange.export import export_labels
    from steepest.labelling.exchange.folder import LoopFolder

    written, left_out = export_labels(LoopFolder.open(folder), kind, file)
    without = f"; {left_out} left out, as {kind} cannot say that a sample has no class"
    print(f"{file}: labels of {counted(written, 'sample')}{without if left_out else ''}")
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

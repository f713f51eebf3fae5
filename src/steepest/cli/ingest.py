"""Take the labels of a file into a labelling loop: all of them, or none if one is wrong."""

from __future__ import annotations

import argparse
from pathlib import Path

from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.exchange.folder import LABELS, SERVER, LoopFolder
from steepest.labelling.exchange.ingest import Ingested, find_kind, ingest
from steepest.labelling.formats.base import FORMATS
from steepest.labelling.label_studio.annotations import ingest_export

EXAMPLES = ("steepest ingest to-label.csv --run loop",)

LABEL_STUDIO = "label-studio"
"""The format of Label Studio's export, whose annotations take more than a table of labels."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a file or folder of labels: .csv, .jsonl, the .json that Label Studio exports, or "
        "another --format",
    )
    add_loop_folder(parser)
    parser.add_argument(
        "--format",
        choices=[*filter(lambda name: FORMATS.get(name).labels, FORMATS.names()), LABEL_STUDIO],
        help="what the file or folder is, if its name does not say",
    )
    parser.add_argument(
        "--who", default="file", metavar="NAME", help="who labelled (default: file)"
    )
    add_reading(parser)
    add_map_files(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if not arguments.who.strip():
        raise InputError("--who is empty; name the person or program that labelled")
    if arguments.who.startswith(SERVER):
        # A pull would take such a label back that has no annotation there.
        raise InputError(f"--who {arguments.who}: names from {SERVER} on are a server's own")
    folder = LoopFolder.open(arguments.run)
    file: Path = arguments.file
    is_json = file.suffix.lower() == ".json"
    kind = arguments.format or (LABEL_STUDIO if is_json else find_kind(file))
    if kind == LABEL_STUDIO:
        done = ingest_export(
            file,
            folder,
            relabel=arguments.relabel,
            background=arguments.background,
            disagreement=arguments.disagreement,
        )
    else:
        done = ingest(file, folder, kind=kind, relabel=arguments.relabel, who=arguments.who)
    print(f"{arguments.file}: {say(done)}")
    print(f"All labels: {folder.path / LABELS}")
    write_map_files(arguments, folder)
    return 0


def add_loop_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the labelling loop."""
    parser.add_argument(
        "--run",
        type=Path,
        required=True,
        metavar="DIR",
        help="the loop's folder, as `steepest select --run` made it",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how answers are read that contradict each other, or are masks."""
    parser.add_argument(
        "--relabel", action="store_true", help="replace labels on record that are different"
    )
    parser.add_argument(
        "--disagreement",
        choices=("refuse", "majority"),
        default="refuse",
        help="what to do if annotators of Label Studio disagree (default: refuse)",
    )
    parser.add_argument(
        "--background",
        metavar="CLASS",
        help="the class of pixels that nobody painted (default: unknown, 255)",
    )


def add_map_files(parser: argparse.ArgumentParser) -> None:
    """Add the files that label maps can be written to."""
    parser.add_argument(
        "--coco", type=Path, metavar="FILE", help="write all labels or label maps as a COCO file"
    )
    parser.add_argument(
        "--npz", type=Path, metavar="FILE", help="write all label maps as an npz file"
    )


def write_map_files(arguments: argparse.Namespace, folder: LoopFolder) -> None:
    """Write the label maps on record where they are wanted."""
    from steepest.labelling.exchange.export import export_labels

    for path, kind in ((arguments.coco, "coco"), (arguments.npz, "npz")):
        if path is not None:
            export_labels(folder, kind, path)
            print(f"Exported: {path}")


def say(done: Ingested) -> str:
    """Describe the result of ingesting answers."""
    counts = {
        "changed": done.changed,
        "skipped": done.skipped,
        "withdrawn": done.withdrawn,
        "known already": done.known,
    }
    told = [counted(done.new, "new label")] if done.new else []
    told += [f"{count} {what}" for what, count in counts.items() if count]
    waiting = counted(done.waiting, "sample still waits", "samples still wait")
    return f"{', '.join(told) or 'nothing new'}; {waiting}"

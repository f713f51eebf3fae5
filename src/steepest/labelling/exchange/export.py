"""Picks as files for the people who label."""

from __future__ import annotations

import json
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.exchange.csv_file import sheet
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.jsonl_file import lines
from steepest.labelling.exchange.rounds import Round

SUFFIXES = {"csv": ".csv", "jsonl": ".jsonl", "label-studio": ".json"}
"""The formats, and how their files' names end."""

CONFIG = "label-studio.xml"


def check_export(kind: str, path: Path) -> None:
    """Raise if a file's name does not fit its format.

    Raises:
        InputError: Says how it should end.
    """
    if path.suffix != SUFFIXES[kind]:
        raise InputError(f"--out {path}: an export for {kind} ends in {SUFFIXES[kind]}")


def export_text(kind: str, made: Round, number: int, folder: LoopFolder | None) -> str:
    """Return a round in a format that people, or their programs, can fill in.

    Args:
        kind: ``"csv"``, ``"jsonl"`` or ``"label-studio"``.
        made: The round.
        number: Its number.
        folder: The loop; needed for Label Studio.

    Raises:
        InputError: If the loop is needed and missing.
    """
    if kind == "csv":
        return sheet(made)
    if kind == "jsonl":
        return lines(made)
    if folder is None:
        raise InputError("--export label-studio needs --run, which knows the classes")
    from steepest.labelling.label_studio.pictures import Gallery
    from steepest.labelling.label_studio.tasks import make_task, picks_of

    gallery, key = Gallery(folder.source), folder.key(folder.read_pool())
    tasks = []
    for pick in picks_of(made, number):
        shown = gallery.picture(pick.id)
        tasks.append(make_task(pick, shown.data_url, shown.size, folder, key))
    return json.dumps(tasks) + "\n"

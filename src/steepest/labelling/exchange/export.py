"""Picks as files for the people who label."""

from __future__ import annotations

import json
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.exchange.answer import merge
from steepest.labelling.exchange.changes import plan
from steepest.labelling.exchange.csv_file import read_csv, sheet
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.jsonl_file import lines, read_jsonl
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.exchange.rows import Reader, to_answers
from steepest.pool import Pool

SUFFIXES = {"csv": ".csv", "jsonl": ".jsonl", "label-studio": ".json"}
"""The formats, and how their files' names end."""

CONFIG = "label-studio.xml"
_FILLED_IN: dict[str, Reader] = {"csv": read_csv, "jsonl": read_jsonl}


def check_export(kind: str, path: Path) -> None:
    """Raise if a file's name does not fit its format.

    Raises:
        InputError: Says how it should end.
    """
    if path.suffix != SUFFIXES[kind]:
        raise InputError(f"--out {path}: an export for {kind} ends in {SUFFIXES[kind]}")


def check_taken_in(kind: str, path: Path, folder: LoopFolder, pool: Pool) -> None:
    """Raise if a file would be written over that holds labels which the loop has not.

    Args:
        kind: The format.
        path: The file, there or not.
        folder: The loop.
        pool: Its pool as it is.

    Raises:
        InputError: Says how to keep them.
    """
    if kind not in _FILLED_IN or not path.is_file() or not path.stat().st_size:
        return
    remedy = f"run `steepest ingest {path} --run {folder.path}` first, or choose another --out"
    try:
        answers = to_answers(_FILLED_IN[kind](path), path, folder, pool)
        answers = merge(answers, str(path), folder.say)
    except InputError as error:
        raise InputError(f"--out would replace a file that may hold labels: {error}") from error
    if plan(pool, answers, who="file", may_change=lambda _: True, say=folder.say):
        raise InputError(f"--out {path} holds labels that the loop has not: {remedy}")


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

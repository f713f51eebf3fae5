"""Picks as files for the people who label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.exchange.answers import merge, plan, to_answers
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.rounds import Numbered, put_together
from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION
from steepest.labelling.formats.base import FORMATS, LabelSet, Reader
from steepest.labelling.formats.csv import is_sheet, read_csv, sheet
from steepest.labelling.formats.jsonl import lines, read_jsonl
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


def check_taken_in(kind: str | None, path: Path, folder: LoopFolder, pool: Pool) -> None:
    """Raise if a file would be written over that holds labels which the loop has not.

    Args:
        kind: The format; None for the selection itself.
        path: The file, there or not.
        folder: The loop.
        pool: Its pool as it is.

    Raises:
        InputError: Says how to keep them.
    """
    reader = _reader(kind, path)
    if reader is None:
        return
    try:
        answers = to_answers(reader(path), path, folder.vocabulary, pool)
        answers = merge(answers, str(path), folder.say)
    except InputError as error:
        raise InputError(
            f"--out would replace a file that may hold labels: {error}; or choose another --out"
        ) from error
    if plan(pool, answers, who="file", may_change=lambda _: True, say=folder.say):
        raise InputError(
            f"--out {path} holds labels that the loop has not: run `steepest ingest {path} --run "
            f"{folder.path}` first, or choose another --out"
        )


def check_empty(kind: str | None, path: Path) -> None:
    """Raise if a file would be written over that people have begun to fill in.

    Args:
        kind: The format; None for the selection itself.
        path: The file, there or not.

    Raises:
        InputError: Says how to keep it.
    """
    reader = _reader(kind, path)
    if reader is None or (reader is read_csv and not is_sheet(path)):
        return
    try:
        filled_in = any(row.answered for row in reader(path))
    except InputError as error:
        raise InputError(
            f"--out would replace a file that may hold labels: {error}; or choose another --out"
        ) from error
    if filled_in:
        raise InputError(f"--out {path} holds labels: move it elsewhere, or choose another --out")


def _reader(kind: str | None, path: Path) -> Reader | None:
    """Return what reads a file that people may have filled in, if there is one."""
    if not path.is_file() or not path.stat().st_size:
        return None
    if kind is None:
        return read_csv if path.suffix == SUFFIXES["csv"] and is_sheet(path) else None
    return _FILLED_IN.get(kind)


def export_text(kind: str, made: Sequence[Numbered]) -> str:
    """Return picks as ``"csv"`` or ``"jsonl"``, for people or their programs to fill in.

    Args:
        kind: The format.
        made: Rounds, or parts of them, in the order in which people should see them.
    """
    picks = put_together(made)
    return sheet(picks) if kind == "csv" else lines(picks)


def export_labels(folder: LoopFolder, kind: str, path: Path) -> tuple[int, int]:
    """Write all labels on record in the format of another program.

    Returns:
        The number of samples with a label, and of those left out because they have none of the
        classes, which the format cannot say.

    Raises:
        InputError: If the labels do not fit the format, or cannot be written.
    """
    format_type, words = FORMATS.get(kind), folder.vocabulary
    ids, labels = folder.read_pool().labelled()
    photos = folder.source if folder.source.is_dir() else None
    if words.task == SEGMENTATION:
        if not format_type.maps:
            raise InputError(f"{folder.path} has label maps: write them as coco or npz")
        found = LabelSet(words.names, {}, photos, folder.maps.load_all(ids, labels))
        format_type().write(found, path)
        return len(ids), 0
    if not format_type.labels:
        raise InputError(f"{folder.path} is a loop of {words.task}: it has no maps")
    several = words.task == MULTI_LABEL
    if several and not format_type.multi_label:
        raise InputError(f"{kind} has one class for each sample; take another --format")
    named = {i: words.to_names(label) for i, label in zip(ids, labels, strict=True)}
    kept = {i: names for i, names in named.items() if names or format_type.empty}
    format_type().write(LabelSet(words.names, kept, photos, multi_label=several), path)
    return len(kept), len(named) - len(kept)

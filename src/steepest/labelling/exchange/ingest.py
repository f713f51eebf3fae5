"""From a label file to the pool: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.errors import InputError, UnknownNameError
from steepest.labelling.exchange.answer import Answer, merge
from steepest.labelling.exchange.changes import Change, carry_out, plan
from steepest.labelling.exchange.csv_file import check_known, label_table, read_csv
from steepest.labelling.exchange.folder import LABELS, LoopFolder, next_round
from steepest.labelling.exchange.jsonl_file import read_jsonl
from steepest.labelling.exchange.rows import Reader, to_answers
from steepest.pool import Pool, State, Verb

LABEL_STUDIO = "label-studio"
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": LABEL_STUDIO,
}
_READERS: dict[str, Reader] = {"csv": read_csv, "jsonl": read_jsonl}
FORMATS = (*_READERS, LABEL_STUDIO)


@dataclass(frozen=True)
class Ingested:
    """What came of answers.

    Attributes:
        new: Samples that got their first label.
        changed: Samples whose label, or skip, was replaced.
        skipped: Samples that were set aside.
        known: Answers that were on record already.
        withdrawn: Samples that wait again, because their answer was taken back.
        waiting: Samples that were asked about and have no answer yet.
    """

    new: int
    changed: int
    skipped: int
    known: int
    withdrawn: int
    waiting: int

    @property
    def anything(self) -> bool:
        """Whether the pool has changed."""
        return bool(self.new or self.changed or self.skipped or self.withdrawn)


def ingest(
    path: Path,
    folder: LoopFolder,
    *,
    kind: str | None = None,
    relabel: bool = False,
    who: str = "file",
    background: str | None = None,
    disagreement: str = "refuse",
) -> Ingested:
    """Take in the labels of a file; the same file again changes nothing.

    Args:
        path: The file.
        folder: The loop's folder.
        kind: ``"csv"``, ``"jsonl"`` or ``"label-studio"``; None goes by the file's name.
        relabel: Whether labels on record may be replaced.
        who: Who labelled, if the file does not say.
        background: The class of pixels without one, for masks of Label Studio.
        disagreement: What several annotators of Label Studio do who disagree: ``"refuse"`` or
            ``"majority"``.

    Raises:
        InputError: If the file cannot be used; the pool is then as before.
        PoolError: If it contradicts what is on record; the pool is then as before.
        JournalError: If the pool has lost labels that the loop's table tells of.
    """
    kind = kind or _kind_of(path)
    with folder.open_pool() as pool:
        if kind == LABEL_STUDIO:
            from steepest.labelling.label_studio.annotations import Rules, read_export

            rules = Rules(folder, pool, background=background, disagreement=disagreement)
            answers = read_export(path, rules)
        elif kind in _READERS:
            rows = list(_READERS[kind](path))
            if not rows:
                raise InputError(f"{path}: has no rows; give a file with labels")
            answers = to_answers(rows, path, folder, pool)
        else:
            raise UnknownNameError("format of labels", kind, FORMATS)
        answers = merge(answers, str(path), folder.say)
        changes = plan(pool, answers, who=who, may_change=lambda _: relabel, say=folder.say)
        if path.resolve() != (folder.path / LABELS).resolve():
            check_known(folder, pool, answers)
        return settle(folder, pool, answers, changes)


def settle(
    folder: LoopFolder, pool: Pool, answers: Iterable[Answer], changes: list[Change]
) -> Ingested:
    """Write checked changes, maps first, then the table of all labels."""
    answers = list(answers)
    touched = {change.id for change in changes}
    for answer in answers:
        if answer.draw is not None and answer.id in touched:
            folder.maps.save(answer.draw())
    before = {i: pool.state(i) for i in touched}
    carry_out(pool, changes, max(next_round(pool) - 1, 0))
    table = label_table(folder, pool).encode()
    if not (folder.path / LABELS).exists() or (folder.path / LABELS).read_bytes() != table:
        write_atomically(folder.path / LABELS, table)
    given = {c.id for c in changes if c.verb in (Verb.LABEL, Verb.RELABEL)}
    free = (State.UNLABELLED, State.QUERIED)
    fresh = {i for i in given if before[i] in free}
    return Ingested(
        new=len(fresh),
        changed=len(given - fresh),
        skipped=sum(c.verb is Verb.SKIP for c in changes),
        known=sum(answer.id not in touched for answer in answers),
        withdrawn=sum(c.verb is Verb.QUERY for c in changes),
        waiting=pool.counts()[State.QUERIED],
    )


def _kind_of(path: Path) -> str:
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise InputError(
            f"{path}: is no {', '.join(SUFFIXES)}; say what it is by --format"
        ) from None

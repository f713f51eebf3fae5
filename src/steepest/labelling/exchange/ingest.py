"""From a label file to the pool: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.core.wording import counted
from steepest.errors import InputError, JournalError
from steepest.labelling.exchange.answers import Answer, Change, carry_out, merge, plan, to_answers
from steepest.labelling.exchange.folder import LABELS, SERVER, LoopFolder, next_round
from steepest.labelling.formats.base import FORMATS
from steepest.labelling.formats.csv import read_csv, table_text
from steepest.labelling.names import BAR
from steepest.labelling.project.answers import check_annotator, find_annotator
from steepest.labelling.project.consensus import IMPORTED_BY
from steepest.labelling.project.ledger import ProjectPool
from steepest.labelling.project.store import FILE_NAME
from steepest.pool import Pool, State, Verb


@dataclass(frozen=True)
class Ingested:
    """The result of ingesting answers.

    Attributes:
        new: Samples that got their first label.
        changed: Samples whose label, or skip, was replaced.
        skipped: Samples that were set aside.
        known: Answers that were on record already.
        withdrawn: Samples that wait again, because their answer was taken back.
        waiting: Samples that were requested and have no answer yet.
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
) -> Ingested:
    """Ingest the labels of a file; the same file again changes nothing.

    Args:
        path: The file.
        folder: The loop's folder.
        kind: A format's name; None goes by the file's name.
        relabel: Whether labels on record may be replaced.
        who: The person who labelled, where no column ``annotator`` names one.

    Raises:
        InputError: If the file cannot be used; the pool is then unchanged.
        PoolError: If it contradicts the records; the pool is then unchanged.
        JournalError: If the pool has lost labels that are in the loop's table.
    """
    file = FORMATS.get(kind or find_kind(path))()
    rows = list(file.read(path))
    if not rows:
        raise InputError(f"{path}: has no rows; give a file with labels")
    people = _find_people(folder, [who, *(row.annotator for row in rows)])
    rows = [replace(row, annotator=people.get(row.annotator, "")) for row in rows]

    def read(pool: ProjectPool) -> list[Answer]:
        return to_answers(rows, path, folder.vocabulary, pool, stems=file.stems)

    return ingest_answers(path, folder, read, relabel=relabel, who=people.get(who, who))


def ingest_answers(
    path: Path,
    folder: LoopFolder,
    read: Callable[[ProjectPool], Iterable[Answer]],
    *,
    relabel: bool,
    who: str,
) -> Ingested:
    """Ingest the answers of a file, in one transaction.

    Args:
        path: The file.
        folder: The loop's folder.
        read: Reads the answers, about samples of the pool that it is given.
        relabel: Whether labels on record may be replaced.
        who: The person who labelled, where an answer names nobody.

    Raises:
        InputError: If the file cannot be used; the pool is then unchanged.
        PoolError: If it contradicts the records; the pool is then unchanged.
        JournalError: If the pool has lost labels that are in the loop's table.
    """
    with folder.open_pool() as pool, pool.transaction():
        answers = merge(read(pool), str(path), folder.say)
        changes = plan(pool, answers, who=who, may_change=lambda _: relabel, say=folder.say)
        if path.resolve() != (folder.path / LABELS).resolve():
            check_known(folder, pool, answers)
        done = settle(folder, pool, answers, changes)
    write_label_table(folder)
    return done


def _find_people(folder: LoopFolder, names: Iterable[str]) -> dict[str, str]:
    """Return people's names as the project spells them, in capitals or not.

    Names of a server are left out: a pull would take back a label that has no annotation there.

    Raises:
        InputError: If one cannot be a person's name.
    """
    own = {name for name in names if name and name != IMPORTED_BY and not name.startswith(SERVER)}
    for name in own:
        check_annotator(name)
    with folder.store.reading() as connection:
        return {name: find_annotator(connection, name) for name in own}


def settle(
    folder: LoopFolder, pool: Pool, answers: Iterable[Answer], changes: list[Change]
) -> Ingested:
    """Write checked changes within a transaction of the pool, maps first."""
    answers = list(answers)
    touched = {change.id for change in changes}
    for answer in answers:
        if answer.draw is not None and answer.id in touched:
            folder.maps.save(answer.draw())
    before = {i: pool.state(i) for i in touched}
    carry_out(pool, changes, max(next_round(pool) - 1, 0))
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


def label_table(folder: LoopFolder, pool: Pool) -> str:
    """Return all labels on record as a table that ``read_csv`` reads."""
    ids, labels = pool.labelled()
    cells = [[sample, folder.say(label)] for sample, label in zip(ids, labels, strict=True)]
    return table_text([["id", "label"], *cells])


def write_label_table(folder: LoopFolder) -> None:
    """Rewrite the table of all labels, if it has changed."""
    file = folder.path / LABELS
    # Within a transaction, so that no other process overwrites it with an older one.
    with folder.open_pool() as pool, pool.transaction():
        table = label_table(folder, pool).encode()
        if not file.exists() or file.read_bytes() != table:
            write_atomically(file, table)


def check_known(folder: LoopFolder, pool: ProjectPool, answers: Iterable[Answer]) -> None:
    """Refuse to continue if the table of all labels tells of some that nobody knows of.

    It is about to be rewritten, and may be the last place where they are.

    Args:
        folder: The project, with its table as it was left.
        pool: Its pool.
        answers: What is being taken in.

    Raises:
        JournalError: If there are such labels, or the table cannot be read.
    """
    path = folder.path / LABELS
    if not path.exists():
        return
    given = [(event.id, event.label) for event in pool.events() if event.label is not None]
    given += [(answer.id, answer.label) for answer in answers if answer.label is not None]
    given += zip(*pool.labelled(), strict=True)
    known = {(str(sample), folder.say(label)) for sample, label in given}
    # Copies have the labels of what they are copies of, earlier ones too.
    copies = pool.copies()
    if copies:
        originals = set(map(str, copies.values()))
        labels: dict[str, set[str]] = {}
        for sample, label in known:
            if sample in originals:
                labels.setdefault(sample, set()).add(label)
        for copy, original in copies.items():
            known |= {(str(copy), label) for label in labels.get(str(original), ())}
    renamed = pool.renamed()
    try:
        rows = [(str(row.id), str(row.label)) for row in read_csv(path)]
    except InputError as error:
        raise JournalError(f"{error}; or move the file away, and it is written anew") from error
    strange = [
        (sample, label)
        for sample, label in rows
        if (sample, label) not in known and (sample, _rename(label, renamed)) not in known
    ]
    if strange:
        sample, label = strange[0]
        raise JournalError(
            f"{path} has {counted(len(strange), 'label')} that {FILE_NAME} does not know of, such "
            f"as {label!r} of sample {sample!r}; take them in by `steepest ingest {path} --run "
            f"{folder.path}`, or move the file away if they were no answers"
        )


def _rename(label: str, renamed: Mapping[str, str]) -> str:
    return BAR.join(renamed.get(name, name) for name in label.split(BAR))


def find_kind(path: Path) -> str:
    """Return the format that the name of a file or folder suggests.

    Raises:
        InputError: If it suggests none.
    """
    if path.is_dir():
        return "yolo"
    kinds = {end: name for name in FORMATS.names() for end in FORMATS.get(name).suffixes}
    if path.suffix.lower() not in kinds:
        raise InputError(f"{path}: is no {', '.join(kinds)} or .json; add --format")
    return kinds[path.suffix.lower()]

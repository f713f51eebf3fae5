"""The folder of a labelling loop: its pool, its classes and the rounds of picks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steepest.core.files import SCRATCH_PREFIX, write_atomically
from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.errors import InputError, JournalError, PoolError, RunFolderError
from steepest.labelling.exchange.array_identity import ArrayIdentity
from steepest.labelling.exchange.maps import MapStore
from steepest.labelling.exchange.rounds import Round, read_round, write_round
from steepest.labelling.exchange.vocabulary import SEGMENTATION, Vocabulary
from steepest.pool import FileLock, Pool, State, Verb
from steepest.pool.values import Label

SETTINGS, JOURNAL, LABELS = "loop.json", "pool.jsonl", "labels.csv"
FORMAT = 1
SERVER = "label-studio:"
"""How the names of people begin whose answers came from a server."""


@dataclass(frozen=True)
class Settings:
    """What holds for a loop from its first round to its last.

    Attributes:
        task: What is asked about each sample.
        classes: The classes' names [C].
        pool: Where the samples are: a folder of images, or an array.
        format: The version of this file.
        array: What tells the array from others; None for a folder, and in files that were written
            before it was kept.
    """

    task: str
    classes: tuple[str, ...]
    pool: str
    format: int = FORMAT
    array: ArrayIdentity | None = None


class LoopFolder:
    """A labelling loop on disk. Nothing of it is held between two calls.

    Made by ``begin`` or ``open``.

    Attributes:
        path: The folder.
        vocabulary: The task and its classes.
        source: Where the samples are.
        maps: The label maps, for segmentation.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings
        self.vocabulary = Vocabulary(settings.task, settings.classes)
        self.source = Path(settings.pool)
        self.maps = MapStore(path)

    @classmethod
    def find(cls, path: Path, ids: Sequence[SampleId], settings: Settings) -> LoopFolder:
        """Return the loop that is there, or one that ``begin`` has still to make.

        Raises:
            RunFolderError: If the folder holds something else, or another loop.
        """
        if not _holds_loop(path):
            return cls(path, settings)
        folder = cls.open(path)
        folder.check_same(ids, settings)
        return folder

    @property
    def settings(self) -> Settings:
        """What holds for the loop."""
        return self._settings

    @property
    def begun(self) -> bool:
        """Whether the loop is there."""
        return _holds_loop(self.path)

    def begin(self, ids: Sequence[SampleId]) -> None:
        """Make the folder, if it is not there.

        Raises:
            RunFolderError: If another loop was made there in the meantime.
        """
        if not self.begun:
            with self.hold():
                if not self.begun:
                    # The pool is made last: without it, nothing has begun; this is done again.
                    self._write_settings()
                    Pool.create(ids, self.path / JOURNAL).close()
                    return
        self.open(self.path).check_same(ids, self._settings)

    def hold(self) -> FileLock:
        """Keep others from choosing; labels can be taken in all the same.

        Raises:
            RunFolderError: If someone else is choosing.
        """
        try:
            return FileLock(self.path / SETTINGS)
        except RunFolderError as error:
            raise RunFolderError(
                f"{error}; if another command is choosing there, run this one again after it"
            ) from error

    def note_array(self, array: ArrayIdentity | None) -> None:
        """Keep what tells the array from others, if the loop is older than that."""
        if array is not None and self._settings.array is None:
            self._settings = replace(self._settings, array=array)
            self._write_settings()

    def _write_settings(self) -> None:
        table = json.dumps(to_table(self._settings), indent=1)
        write_atomically(self.path / SETTINGS, table + "\n")

    @classmethod
    def open(cls, path: Path) -> LoopFolder:
        """Go on with a loop.

        Raises:
            RunFolderError: If there is none, or one that this version cannot read.
        """
        if not _holds_loop(path):
            raise RunFolderError(
                f"{path} holds no labelling loop; make one by `steepest select --run {path}`"
            )
        file = path / SETTINGS
        try:
            table: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
            settings = from_table(Settings, table)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise RunFolderError(f"{file} is damaged ({error}); restore it from a copy") from error
        if settings.format != FORMAT:
            raise RunFolderError(f"{file} has format {settings.format}; use the steepest it is of")
        return cls(path, settings)

    def open_pool(self) -> Pool:
        """Hold the pool for writing."""
        return self._open_journal(Pool.open)

    def read_pool(self) -> Pool:
        """Show the pool as it is now."""
        return self._open_journal(Pool.replay)

    def _open_journal(self, how: Callable[[Path], Pool]) -> Pool:
        """Open the pool, and say where labels still are if it is damaged."""
        try:
            return how(self.path / JOURNAL)
        except JournalError as error:
            table = self.path / LABELS
            if not table.exists():
                raise
            remedy = f"or begin another loop and take {table} into it by `steepest ingest`"
            raise JournalError(f"{error}, {remedy}") from error

    def key(self, pool: Pool) -> str:
        """Return what tells this loop's samples and classes from others'."""
        told = json.dumps([self.vocabulary.task, self.vocabulary.names, pool.ids()])
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()

    def round_file(self, number: int) -> Path:
        """Return the file of a round."""
        return self.path / "rounds" / f"round-{number:03d}.json"

    def rounds(self, pool: Pool) -> list[Round]:
        """Read all rounds that were committed to the pool."""
        return [read_round(self.round_file(number)) for number in range(next_round(pool))]

    def commit(self, made: Round, expected: int | None = None) -> int:
        """Mark the picks of a round as queried and return the round's number.

        Args:
            made: The round.
            expected: The number that it should have, if others may have been quicker.

        Raises:
            PoolError: If another round was made, or a pick is no longer free; then nothing has
                changed.
        """
        with self.open_pool() as pool:
            number = next_round(pool)
            free = set(pool.ids(State.UNLABELLED))
            if expected not in (None, number) or not free.issuperset(made.picks.ids):
                raise PoolError(
                    f"{self.path}: another command chose or labelled samples there meanwhile; run "
                    "this one again"
                )
            write_round(made, self.round_file(number))
            pool.query(made.picks.ids, cycle=number, who=made.picks.strategy)
        return number

    def say(self, label: Label) -> str:
        """Return a label in the words of a label file that lies in this folder."""
        if self.vocabulary.task == SEGMENTATION:
            return self.maps.file_name(label)
        return self.vocabulary.to_text(label)

    def check_same(self, ids: Sequence[SampleId], settings: Settings) -> None:
        """Refuse other classes or samples: ids and class numbers would change their meaning.

        Raises:
            RunFolderError: Says what is different.
        """
        here = self.vocabulary
        if (settings.task, settings.classes) != (here.task, here.names):
            raise RunFolderError(
                f"{self.path} is a loop of {here.task} with the classes {', '.join(here.names)}; "
                "give those, or choose another --run"
            )
        known, given = set(self.read_pool().ids()), set(ids)
        if known != given:
            new, gone = sorted(map(str, given - known)), sorted(map(str, known - given))
            what = (
                f"has sample {new[0]} too ({len(new)} new)"
                if new
                else f"lacks sample {gone[0]} ({len(gone)} gone)"
            )
            raise RunFolderError(
                f"{self.path} is a loop of {len(known)} samples, and the pool {what}: bring the "
                "pool back as it was, or choose another --run"
            )
        self.check_array(settings.array)

    def check_array(self, given: ArrayIdentity | None) -> None:
        """Refuse another array than the one that the loop began with.

        Raises:
            RunFolderError: Says what is different.
        """
        known = self._settings.array
        if known is None or given is None or known == given:
            return
        what = "other values than when the loop began"
        if known.shape != given.shape:
            what = f"the shape {list(given.shape)}, and had {list(known.shape)}"
        raise RunFolderError(
            f"{self.path}: the array of the pool has {what}, and labels may belong to other "
            "samples: bring the array back as it was, or choose another --run (which takes these "
            f"labels over by `steepest ingest {self.path / LABELS}`, if rows are the same samples)"
        )


def next_round(pool: Pool) -> int:
    """Return the number of rounds so far, which is the number of the next."""
    # A sample whose answer was taken back is asked about again, and that is no new round.
    asked = (e for e in pool.events() if e.verb is Verb.QUERY and not e.who.startswith(SERVER))
    return max((event.cycle for event in asked), default=-1) + 1


def read_settings(path: Path) -> Settings | None:
    """Return the settings of a loop, or None if it has not begun."""
    if not _holds_loop(path):
        return None
    return LoopFolder.open(path).settings


def _holds_loop(path: Path) -> bool:
    """Return whether a loop was begun here.

    Raises:
        RunFolderError: If something else is here.
    """
    try:
        found = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunFolderError(f"{path} is no folder ({error.strerror}); choose another") from error
    if {SETTINGS, JOURNAL} <= found:
        return True
    ours = {SETTINGS, f"{SETTINGS}.lock", f"{JOURNAL}.lock", f"{JOURNAL}.new"}
    if any(name not in ours and not name.startswith(SCRATCH_PREFIX) for name in found):
        raise RunFolderError(f"{path} holds something else than a labelling loop; choose another")
    return False


def read_names(text: str) -> tuple[str, ...]:
    """Read class names: separated by commas, or ``@FILE`` with one per line.

    Raises:
        InputError: If the file cannot be read.
    """
    if not text.startswith("@"):
        return tuple(name.strip() for name in text.split(","))
    try:
        lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{text[1:]}: class names cannot be read ({error})") from error
    return tuple(line.strip() for line in lines if line.strip())

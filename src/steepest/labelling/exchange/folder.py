"""The folder of a labelling project as sheets and servers see it: its pool, classes and rounds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.lock import FileLock
from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.errors import DataError, InputError, PoolError, RunFolderError
from steepest.labelling.exchange.array_identity import ArrayIdentity
from steepest.labelling.exchange.maps import MapStore
from steepest.labelling.exchange.rounds import Round, round_from_table, round_to_table
from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION, Vocabulary
from steepest.labelling.project.ledger import ProjectPool
from steepest.labelling.project.metadata import About, keep_to_classes
from steepest.labelling.project.opening import (
    SHEETS,
    begin_project,
    holds_project,
    upgrade_folder,
)
from steepest.labelling.project.settings import load_settings
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.labelling.project.trust import PHOTOS_NAME
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label

LABELS = "labels.csv"
SERVER = "label-studio:"
"""Prefix of the names of people whose answers came from a server."""
_CHOOSING = "choosing"


@dataclass(frozen=True)
class Settings:
    """Settings of a project from its first round to its last.

    Attributes:
        task: The question about each sample.
        classes: The classes' names [C].
        pool: The location of the samples: a folder of images, or an array.
        array: The identity of the array; None for a folder, and in projects that were begun
            before it was kept.
    """

    task: str
    classes: tuple[str, ...]
    pool: str
    array: ArrayIdentity | None = None


class LoopFolder:
    """A labelling project on disk, as one who asks in rounds sees it.

    Made by ``find`` or ``open``. Others may use the project at the same time; nothing of it is
    held between two calls.

    Attributes:
        path: The folder.
        vocabulary: The task and its classes.
        maps: The label maps, for segmentation.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings
        self._store: Store | None = None
        self.vocabulary = Vocabulary(settings.task, settings.classes)
        self.maps = MapStore(path)

    @classmethod
    def find(cls, path: Path, ids: Sequence[SampleId], settings: Settings) -> LoopFolder:
        """Return the project that is there, or one that ``begin`` has still to make.

        Raises:
            RunFolderError: If the folder holds something else, or another project.
        """
        if not _holds_loop(path):
            return cls(path, settings)
        folder = cls.open(path)
        folder.check_same(ids, settings)
        return folder

    @classmethod
    def open(cls, path: Path) -> LoopFolder:
        """Go on with a project.

        Raises:
            RunFolderError: If there is none, or one that this version cannot read.
        """
        if not _holds_loop(path):
            raise RunFolderError(
                f"{path} holds no labelling loop; make one by `steepest select --run {path}`"
            )
        upgrade_folder(path)
        store = _open_store(path)
        settings = _read_settings(store)
        folder = cls(path, settings)
        folder._store = store
        return folder

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        return self._settings

    @property
    def source(self) -> Path:
        """The location of the samples."""
        return Path(self._settings.pool)

    @property
    def begun(self) -> bool:
        """Whether the project exists."""
        return _holds_loop(self.path)

    def begin(self, ids: Sequence[SampleId]) -> None:
        """Make the project, if it is not there.

        Raises:
            RunFolderError: If another one was made there in the meantime.
        """
        settings = self._settings
        about = from_table(
            About,
            {
                "task": settings.task,
                "numbered": isinstance(ids[0], int),
                "pool": settings.pool,
                "array": None if settings.array is None else to_table(settings.array),
            },
        )
        if not self.begun:
            with self.hold():
                if begin_project(self.path, ids, about, settings.classes):
                    return
        self.open(self.path).check_same(ids, settings)

    def hold(self) -> FileLock:
        """Keep others from choosing; labels can be taken in all the same.

        Raises:
            RunFolderError: If someone else is choosing.
        """
        try:
            return FileLock(self.path / _CHOOSING, shown=self.path)
        except RunFolderError as error:
            raise RunFolderError(
                f"{error}; if another command is choosing there, run this one again after it"
            ) from error

    def note_array(self, array: ArrayIdentity | None) -> None:
        """Store the identity of the array, if the project is older than that."""
        if array is not None and self._settings.array is None:
            with self.open_pool() as pool:
                pool.change_about(array=to_table(array))
            self._refresh()

    def open_pool(self) -> ProjectPool:
        """Open the pool for verbs; in a ``transaction`` of it nobody else changes anything."""
        self._refresh()
        return ProjectPool(self.store, SHEETS)

    def read_pool(self) -> ProjectPool:
        """Show the pool as it is at every moment; it refuses verbs."""
        pool = self.open_pool()
        pool.close()
        return pool

    def key(self, pool: ProjectPool) -> str:
        """Return the identity of this project's samples and classes.

        It stays when classes or images are added.
        """
        known = pool.about().key
        if not known:
            text = json.dumps([self.vocabulary.task, self.vocabulary.names, pool.ids()])
            known = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
            pool.change_about(key=known)
        return known

    def rounds(self) -> dict[int, Round]:
        """Read all rounds that were committed to the pool, by their numbers.

        Raises:
            JournalError: If one is damaged.
        """
        place = str(self.path)
        return {
            number: round_from_table(table, f"{place}: round {number}")
            for number, table in self.read_pool().rounds().items()
        }

    def commit(self, made: Round, expected: int | None = None) -> int:
        """Mark the picks of a round as queried and return the round's number.

        Args:
            made: The round.
            expected: The number that it should have, if others may have been quicker.

        Raises:
            PoolError: If another round was made, or a pick is no longer free; then nothing has
                changed.
        """
        with self.open_pool() as pool, pool.transaction():
            number = next_round(pool)
            free = set(pool.ids(State.UNLABELLED))
            if expected not in (None, number) or not free.issuperset(made.picks.ids):
                raise PoolError(
                    f"{self.path}: another command chose or labelled samples there meanwhile; run "
                    "this one again"
                )
            pool.add_round(number, round_to_table(made))
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
            RunFolderError: Names the difference.
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
            RunFolderError: Names the difference.
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

    @property
    def store(self) -> Store:
        """The project's file."""
        if self._store is None:
            self._store = _open_store(self.path)
        return self._store

    def _refresh(self) -> None:
        """Follow classes that were added or renamed since."""
        self._settings = _read_settings(self.store)
        self.vocabulary = Vocabulary(self._settings.task, self._settings.classes)


def next_round(pool: Pool) -> int:
    """Return the number of rounds so far, which is the number of the next."""
    # A sample whose answer was undone is requested again, without a new round.
    asked = (e for e in pool.events() if e.verb is Verb.QUERY and not e.who.startswith(SERVER))
    return max((event.cycle for event in asked), default=-1) + 1


def read_settings(path: Path) -> Settings | None:
    """Return the settings of a project, or None if it has not begun."""
    return LoopFolder.open(path).settings if _holds_loop(path) else None


def _open_store(path: Path) -> Store:
    """Open a project's file, and say where labels still are if it is damaged."""
    try:
        return Store(path / FILE_NAME)
    except DataError as error:
        table = path / LABELS
        if not table.exists():
            raise
        remedy = f"or begin another loop and take {table} into it by `steepest ingest`"
        raise DataError(f"{error}, {remedy}") from error


def _read_settings(store: Store) -> Settings:
    """Return what holds for a project; a page says less of it than sheets do."""
    keep_to_classes(store)
    pool = ProjectPool(store, SHEETS)
    about = pool.about()
    with store.reading() as connection:
        page = load_settings(connection)
    task = MULTI_LABEL if page is not None and page.multi_label else about.task
    array = None if about.array is None else from_table(ArrayIdentity, about.array)
    folder = store.path.parent
    place = about.pool or str(_photos_of(folder))
    return Settings(task, pool.classes(), place, array)


def _photos_of(folder: Path) -> Path:
    """Return the images of a page's project: it notes where they are, or lies in their folder."""
    try:
        return Path((folder / PHOTOS_NAME).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return folder.resolve().parent


def _holds_loop(path: Path) -> bool:
    """Return whether a project was begun here.

    Raises:
        RunFolderError: If something else is here.
    """
    if holds_project(path):
        return True
    try:
        found = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunFolderError(f"{path} is no folder ({error.strerror}); choose another") from error
    if LABELS in found:
        raise RunFolderError(
            f"{path / FILE_NAME} is gone, but a project was here: restore it from a copy, or begin "
            f"another loop and take {path / LABELS} into it by `steepest ingest`"
        )
    if any(name != f"{_CHOOSING}.lock" and not name.startswith(SCRATCH_PREFIX) for name in found):
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

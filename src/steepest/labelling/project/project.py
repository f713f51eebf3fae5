"""A labelling project: a folder of images, the people who label them, and the models in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from steepest.core.files import write_atomically
from steepest.core.lock import FileLock
from steepest.errors import DataError, InputError
from steepest.labelling.project.classes import ClassList, add_class
from steepest.labelling.project.deciding import Deciding
from steepest.labelling.project.exchanging import Exchanging
from steepest.labelling.project.history import CONDITIONS
from steepest.labelling.project.listing import Scan
from steepest.labelling.project.photos_note import PHOTOS_NAME, check_photos
from steepest.labelling.project.pictures import Pictures
from steepest.labelling.project.queue import Queue
from steepest.labelling.project.readiness import why_no_model
from steepest.labelling.project.records import Batch, Counts, Pick, Training
from steepest.labelling.project.rescan import look_quickly
from steepest.labelling.project.resolve import change_overlap
from steepest.labelling.project.settings import (
    Settings,
    change,
    load_settings,
    merge_settings,
    save_settings,
)
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.labelling.project.trainer import Trainer
from steepest.labelling.project.trainings import latest_batch, list_picks, list_trainings
from steepest.labelling.project.trust import refuse_code, refuse_links

FOLDER_NAME = ".steepest"
"""Where a project is by default: in the folder of the images."""


class Project(Exchanging, Deciding):
    """All that is behind a page for labelling; safe to use from several threads.

    Made by ``open``. One process at a time has it.

    Attributes:
        photos: The folder of the images.
        folder: The folder of the project.
        store: The project's file.
        queue: Gives out samples and takes answers.
        pictures: Shows samples.
        trainer: Trains models in the background.
        scan: What the look at the folder found.
    """

    def __init__(
        self,
        photos: Path,
        store: Store,
        lock: FileLock,
        settings: Settings,
        clock: Callable[[], float],
        *,
        background: bool,
    ) -> None:
        self.photos = photos
        self.folder = store.path.parent
        self.store = store
        self._lock = lock
        self._settings = settings
        self._clock = clock
        self.scan = look_quickly(store, photos, settings)
        current: Callable[[], Settings] = lambda: self._settings  # noqa: E731
        self.pictures = Pictures(store, photos, current, clock)
        self.trainer = Trainer(store, photos, current, clock, background=background)
        self.queue = Queue(store, photos, current, clock, self.trainer.consider)

    @classmethod
    def open(
        cls,
        photos: Path | str,
        classes: Sequence[str] = (),
        *,
        folder: Path | str | None = None,
        settings: Settings | None = None,
        background: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> Project:
        """Begin a project, or go on with it.

        Args:
            photos: The folder of the images.
            classes: Added to those that the project has.
            folder: Where the project is kept; by default in the folder of the images.
            settings: What holds from now on; None keeps what is stored, unless that names code
                of somebody's own: a folder with its project may be anybody's.
            background: Whether to train models, in a process of their own.
            clock: Says what time it is.

        Raises:
            DataError: If there is no such folder of images, or the project's file is damaged.
            InputError: If classes or settings cannot be used, or the project's folder has links.
            RunFolderError: If another process has the project open.
        """
        photos = Path(photos).absolute()
        if not photos.is_dir():
            raise DataError(f"{photos}: no such folder")
        place = (photos / FOLDER_NAME if folder is None else Path(folder)).absolute()
        if place.resolve() == photos.resolve():
            raise InputError(f"{place}: the project needs a folder of its own")
        if settings is not None:
            settings.check_names()
        if folder is not None:
            check_photos(place / PHOTOS_NAME, photos)
        refuse_links(place, named=folder is not None)
        lock = FileLock(place / "project", shown=place)
        store: Store | None = None
        try:
            store = Store(place / FILE_NAME)
            merged = _prepare(store, classes, settings)
            if folder is not None:
                write_atomically(place / PHOTOS_NAME, f"{photos.resolve()}\n")
            return cls(photos, store, lock, merged, clock, background=background)
        except BaseException:
            if store is not None:
                store.close()
            lock.release()
            raise

    def close(self) -> None:
        """End the training process, close the file and let others in."""
        self.trainer.stop()
        self.store.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """What holds now."""
        return self._settings

    def change_settings(self, **changes: Any) -> Settings:  # noqa: ANN401 - fields of Settings
        """Change some settings; the next sample or training follows them.

        Raises:
            InputError: If one is not known, set once, or cannot be used.
        """
        with self.store.writing() as connection:
            changed = change(self._settings, changes)
            changed.check_names()
            save_settings(connection, changed)
            change_overlap(connection, self._settings.overlap, changed.overlap)
            self._settings = changed
        return changed

    def classes(self) -> tuple[str, ...]:
        """Return the classes in the order in which they were added."""
        return self.class_list().names

    def class_list(self) -> ClassList:
        """Return the classes with their numbers."""
        with self.store.reading() as connection:
            return ClassList.load(connection, multi_label=self._settings.multi_label)

    def rescan(self) -> Scan:
        """Look at the folder again: new images are added, others marked as missing or changed.

        Raises:
            DataError: If the folder is away as a whole; then nothing is changed.
        """
        self.scan = look_quickly(self.store, self.photos, self._settings)
        return self.scan

    def progress(self) -> Counts:
        """Return how many images are in which state."""
        sums = ", ".join(f"ifnull(sum({c}), 0) AS {name}" for name, c in CONDITIONS.items())
        with self.store.reading() as connection:
            row = connection.execute(
                f"SELECT count(*) AS images, {sums} FROM images"  # noqa: S608
            ).fetchone()
        return Counts(**dict(row))

    def why_no_model(self) -> str | None:
        """Say why no model can be trained on the labels so far; None if one can."""
        with self.store.reading() as connection:
            return why_no_model(connection, multi_label=self._settings.multi_label)

    def trainings(self) -> list[Training]:
        """Return the trainings that came to their end, oldest first."""
        with self.store.reading() as connection:
            return list_trainings(connection)

    def batch(self) -> Batch | None:
        """Return the batch that is being labelled; None before the first picks."""
        with self.store.reading() as connection:
            return latest_batch(connection)

    def picks(self, batch: int | None = None) -> list[Pick]:
        """Return what was picked together, best first; None is the latest batch."""
        with self.store.reading() as connection:
            classes = ClassList.load(connection, multi_label=self._settings.multi_label)
            return list_picks(connection, classes, batch)


def _prepare(store: Store, classes: Sequence[str], given: Settings | None) -> Settings:
    with store.writing() as connection:
        before = load_settings(connection)
        if before is not None and given is None:
            refuse_code(store.path.parent, before, named=())
        settings = merge_settings(before, given)
        save_settings(connection, settings)
        if before is not None:
            change_overlap(connection, before.overlap, settings.overlap)
        for name in classes:
            add_class(connection, name)
    return settings

"""A labelling project: a folder of images, the people who label them, and the models in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from steepest.core.lock import FileLock
from steepest.errors import DataError, InputError
from steepest.labelling.project.accepting import Accepting
from steepest.labelling.project.changed_files import ask_again, keep_labels, mark_changed
from steepest.labelling.project.classes import ClassList, add_class, rename_class
from steepest.labelling.project.consensus import ask_more, change_overlap
from steepest.labelling.project.exporting import (
    ExportReport,
    LabelRow,
    answers_text,
    export_labels,
    list_labels,
)
from steepest.labelling.project.history import (
    CONDITIONS,
    Decision,
    find_image,
    list_decisions,
    note_decision,
)
from steepest.labelling.project.importing import (
    GivenBy,
    ImportReport,
    choose_format,
    import_labels,
    read_labels,
)
from steepest.labelling.project.opening import check_for_page, upgrade_folder
from steepest.labelling.project.pictures import Pictures
from steepest.labelling.project.queue import Queue
from steepest.labelling.project.records import Batch, Counts, Labels, Pick, Training
from steepest.labelling.project.scanning import Scan, look_quickly, note_quickly
from steepest.labelling.project.settings import (
    Settings,
    change,
    load_settings,
    merge_settings,
    save_settings,
    settle_kind,
)
from steepest.labelling.project.source import is_table, open_source, usual_project_folder
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.labelling.project.trainer import Trainer
from steepest.labelling.project.trainings import (
    latest_batch,
    list_picks,
    list_trainings,
    why_no_model,
)
from steepest.labelling.project.trust import check_photos, note_photos, refuse_code, refuse_links


class Project:
    """All that is behind a page for labelling; safe to use from several threads.

    Made by ``open``. One process at a time has it.

    Attributes:
        photos: The folder of the images or texts, or the table of texts.
        source: The samples in it.
        folder: The folder of the project.
        store: The project's file.
        queue: Gives out samples and takes answers.
        pictures: Shows samples.
        trainer: Trains models in the background.
        accepting: Takes predictions as answers of somebody who has looked at them.
        scan: The result of scanning the folder.
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
        self.source = open_source(photos, settings.kind, settings.text_column)
        self.folder = store.path.parent
        self.store = store
        self._lock = lock
        self._settings = settings
        self._clock = clock
        self.scan = look_quickly(store, self.source, settings)
        current: Callable[[], Settings] = lambda: self._settings  # noqa: E731
        self.pictures = Pictures(store, self.source, current, clock)
        self.trainer = Trainer(store, self.source, current, clock, background=background)
        self.queue = Queue(store, self.source, current, clock, self.trainer.consider)
        self.accepting = Accepting(store, current, clock, self._after_accepting)

    def _after_accepting(self) -> None:
        # A file that takes another's name before the next training would not show otherwise.
        note_quickly(self.store, self.source, self._settings)
        self.trainer.consider()

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
        """Create or open a project.

        Args:
            photos: The folder of images or of ``.txt`` files, or a table with a text in each row
                (.csv, .tsv, .json, .jsonl).
            classes: Added to those that the project has.
            folder: Where the project is kept; by default in that folder, or beside the table.
            settings: What holds from now on; None keeps what is stored, unless that names code
                of somebody's own: a folder with its project may be anybody's.
            background: Whether to train models, in a separate process.
            clock: Returns the present time.

        Raises:
            DataError: If the folder or table is missing, or the project's file is damaged.
            InputError: If classes or settings cannot be used, or the project's folder has links.
            RunFolderError: If another process has the project open.
        """
        photos = Path(photos).absolute()
        if not photos.is_dir() and not (is_table(photos) and photos.is_file()):
            raise DataError(f"{photos}: no such folder")
        place = (usual_project_folder(photos) if folder is None else Path(folder)).absolute()
        if place.resolve() == photos.resolve():
            raise InputError(f"{place}: the project needs a folder of its own")
        if (checked := settings and settle_kind(None, settings, photos)) is not None:
            checked.check_names()
        if folder is not None:
            check_photos(place, photos)
        refuse_links(place, named=folder is not None)
        lock = FileLock(place / "project", shown=place)
        store: Store | None = None
        try:
            upgrade_folder(place)
            store = Store(place / FILE_NAME)
            check_for_page(store, photos)
            merged = _prepare(store, photos, classes, settings)
            if folder is not None:
                note_photos(place, photos)
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
        """The current settings."""
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
        self.scan = look_quickly(self.store, self.source, self._settings)
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
        """Return a batch of picks, best first; None is the latest."""
        with self.store.reading() as connection:
            classes = ClassList.load(connection, multi_label=self._settings.multi_label)
            return list_picks(connection, classes, batch)

    def labels(self) -> list[tuple[str, Labels]]:
        """Return every sample that has a label, with its classes, all at one moment.

        Copies of a labelled sample are among them.
        """
        return [(row.sample, row.labels) for row in self.label_rows()]

    def label_rows(self) -> list[LabelRow]:
        """Return the same, and say which labels were carried over to copies."""
        with self.store.reading() as connection:
            return list_labels(connection, self._settings)

    def answers_table(self) -> str:
        """Return each annotator's present answers, as the text of a CSV file."""
        with self.store.reading() as connection:
            return answers_text(connection, self._settings)

    def import_labels(
        self,
        path: Path | str,
        *,
        format: str | None = None,  # noqa: A002 - what users call it
        known_only: bool = False,
    ) -> ImportReport:
        """Take labels from a CSV or JSONL file or from folders of classes, all or none.

        Args:
            path: The file or folder.
            format: Its format; by default that of its name.
            known_only: Whether to pass over samples that are not known.

        Raises:
            InputError: If a sample or class is not known; says the line.
        """
        path, source = Path(path), self.source
        chosen = choose_format(path, format)
        return self.import_given(
            lambda classes: read_labels(path, chosen, source, classes), known_only=known_only
        )

    def import_given(self, given: GivenBy, *, known_only: bool = False) -> ImportReport:
        """Import labels from an iterable, all or none.

        Args:
            given: Yields places, samples and names of classes, given the known classes.
            known_only: Whether to pass over samples that are not known.

        Raises:
            InputError: If a sample or class is not known; says the place.
        """
        report = import_labels(
            self.store, self._settings, given, self._clock(), known_only=known_only
        )
        if report.added:
            # Otherwise a file that takes another's name before the next training would not show.
            note_quickly(self.store, self.source, self._settings)
            self.trainer.consider("labels were imported")
        return report

    def export_labels(
        self,
        path: Path | str,
        *,
        format: str | None = None,  # noqa: A002 - what users call it
        replace: bool = False,
    ) -> ExportReport:
        """Write all labels to a CSV or JSONL file or to folders of classes.

        Raises:
            InputError: If it is there already, or cannot be written.
        """
        return export_labels(
            self.store, self.source, self._settings, Path(path), format, replace=replace
        )

    def decisions(self, sample: str | None = None, *, limit: int = 20) -> list[Decision]:
        """Return the decisions made for the whole project, newest first.

        Args:
            sample: Only entries about this one; None for all.
            limit: How many at most.

        Raises:
            InputError: If there is no such sample.
        """
        with self.store.reading() as connection:
            image = None if sample is None else int(find_image(connection, sample)["number"])
            return list_decisions(connection, image=image, limit=limit)

    def add_class(self, name: str, *, by: str = "") -> None:
        """Add a class; the next model knows it.

        Args:
            name: The class.
            by: The person who adds it.

        Raises:
            InputError: If it cannot be a class's name.
        """
        with self.store.writing() as connection:
            if add_class(connection, name):
                note_decision(connection, (by, self._clock()), "add class", detail=name)

    def rename_class(self, old: str, new: str, *, by: str = "") -> None:
        """Call a class otherwise; its labels stay.

        Args:
            old: The present name.
            new: The new name.
            by: Who wants that.

        Raises:
            InputError: If there is no such class, or the name cannot be its own.
        """
        with self.store.writing() as connection:
            rename_class(connection, old, new)
            said = f"{old} → {new}"
            note_decision(connection, (by, self._clock()), "rename class", detail=said)

    def changed_mark(self) -> str:
        """Return a digest of the labelled files that have changed so far."""
        with self.store.reading() as connection:
            return mark_changed(connection)

    def ask_again(
        self, samples: Sequence[str] | None = None, *, mark: str | None = None, by: str = ""
    ) -> int:
        """Ask again about labelled files that changed; their old answers stay in the history.

        Args:
            samples: The samples; None for all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.
            by: The person who decides.

        Returns:
            How many.

        Raises:
            InputError: If there is no such sample, or others have changed since.
        """
        with self.store.writing() as connection:
            _check_mark(mark, mark_changed(connection))
            asked = ask_again(connection, self._settings, samples)
            if asked:
                note_decision(connection, (by, self._clock()), "ask again", images=asked)
        return len(asked)

    def keep_labels(
        self, samples: Sequence[str] | None = None, *, mark: str | None = None, by: str = ""
    ) -> int:
        """Keep the labels of changed files as labels of their present content.

        Those that are gone, or have changed again since the last look, are left.

        Args:
            samples: The samples; None for all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.
            by: The person who decides.

        Returns:
            How many.

        Raises:
            InputError: If there is no such sample, or others have changed since.
        """
        with self.store.writing() as connection:
            _check_mark(mark, mark_changed(connection))
            kept = keep_labels(connection, self.source, self._settings, samples)
            if kept:
                note_decision(connection, (by, self._clock()), "keep labels", images=kept)
        # Otherwise the next change would show only after a training.
        note_quickly(self.store, self.source, self._settings)
        return len(kept)

    def ask_more(self) -> int:
        """Ask more people about images that were done under a smaller overlap; return how many."""
        with self.store.writing() as connection:
            return ask_more(connection, self._settings.overlap)


def _prepare(
    store: Store, photos: Path, classes: Sequence[str], given: Settings | None
) -> Settings:
    with store.writing() as connection:
        before = load_settings(connection)
        if before is not None and given is None:
            refuse_code(store.path.parent, before, named=())
        settings = merge_settings(before, settle_kind(before, given, photos))
        save_settings(connection, settings)
        if before is not None:
            change_overlap(connection, before.overlap, settings.overlap)
        for name in classes:
            add_class(connection, name)
    return settings


def _check_mark(seen: str | None, there: str) -> None:
    """Refuse a decision about files that no one has seen."""
    if seen is not None and seen != there:
        raise InputError("other files have changed meanwhile; look at the list again, then decide")

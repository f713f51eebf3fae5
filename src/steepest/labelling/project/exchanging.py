"""The part of a project that takes labels out and in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from steepest.labelling.project.contents import note_answered
from steepest.labelling.project.exporting import (
    ExportReport,
    LabelRow,
    answers_text,
    export_labels,
    list_labels,
)
from steepest.labelling.project.importing import GivenBy, ImportReport, import_labels
from steepest.labelling.project.label_files import choose_format, read_labels
from steepest.labelling.project.records import Labels
from steepest.labelling.project.rescan import quick_budget
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store
from steepest.labelling.project.trainer import Trainer


class Exchanging:
    """Labels as files; what else a project is made of stands in ``Project``."""

    photos: Path
    store: Store
    trainer: Trainer
    _settings: Settings
    _clock: Callable[[], float]

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
        """Return what each person says about each sample now, as the text of a CSV file."""
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
            format: What it is; None goes by its name.
            known_only: Whether to pass over samples that are not known.

        Raises:
            InputError: If a sample or class is not known; says the line.
        """
        path, photos = Path(path), self.photos
        chosen = choose_format(path, format)
        return self.import_given(
            lambda classes: read_labels(path, chosen, photos, classes), known_only=known_only
        )

    def import_given(self, given: GivenBy, *, known_only: bool = False) -> ImportReport:
        """Take labels from what yields them, all or none.

        Args:
            given: Yields places, samples and names of classes, told the classes that are known.
            known_only: Whether to pass over samples that are not known.

        Raises:
            InputError: If a sample or class is not known; says the place.
        """
        report = import_labels(
            self.store, self._settings, given, self._clock(), known_only=known_only
        )
        if report.added:
            # Otherwise a file that takes another's name before the next training would not show.
            note_answered(self.store, self.photos, quick_budget())
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
            self.store, self.photos, self._settings, Path(path), format, replace=replace
        )

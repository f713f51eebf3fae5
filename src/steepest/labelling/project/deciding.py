"""The part of a project that decides about labels whose files or number of people changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.project.contents import note_answered
from steepest.labelling.project.following import mark_copies
from steepest.labelling.project.looking import quick_budget
from steepest.labelling.project.replaced import ask_again, keep_labels, mark_changed
from steepest.labelling.project.resolve import ask_more
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store


class Deciding:
    """What people decide about many labels at once; all else stands in ``Project``."""

    photos: Path
    store: Store
    _settings: Settings

    def changed_mark(self) -> str:
        """Return what tells the labelled files that changed so far from any others."""
        with self.store.reading() as connection:
            return mark_changed(connection)

    def ask_again(self, samples: Sequence[str] | None = None, *, mark: str | None = None) -> int:
        """Ask again about labelled files that changed; their old answers stay in the history.

        Args:
            samples: Which of them; None is all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.

        Returns:
            How many.

        Raises:
            InputError: If there is no such sample, or others have changed since.
        """
        with self.store.writing() as connection:
            _check_mark(mark, mark_changed(connection))
            return ask_again(connection, self._settings, samples)

    def keep_labels(self, samples: Sequence[str] | None = None, *, mark: str | None = None) -> int:
        """Let the labels of files that changed hold for what is in them now.

        Those that are gone, or have changed again since the last look, are left.

        Args:
            samples: Which of them; None is all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.

        Returns:
            How many.

        Raises:
            InputError: If there is no such sample, or others have changed since.
        """
        with self.store.writing() as connection:
            _check_mark(mark, mark_changed(connection))
            kept = keep_labels(connection, self.photos, self._settings, samples)
        # Otherwise the next change would show only after a training.
        note_answered(self.store, self.photos, quick_budget())
        with self.store.writing() as connection:
            mark_copies(connection, self._settings)
        return kept

    def ask_more(self) -> int:
        """Ask more people about images that were done under a smaller overlap; return how many."""
        with self.store.writing() as connection:
            return ask_more(connection, self._settings.overlap)


def _check_mark(seen: str | None, there: str) -> None:
    """Refuse a decision about files that nobody has seen."""
    if seen is not None and seen != there:
        raise InputError("other files have changed meanwhile; look at the list again, then decide")

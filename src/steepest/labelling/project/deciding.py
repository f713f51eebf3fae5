"""The part of a project that decides for all: about changed files, more people, and classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.project.classes import add_class, rename_class
from steepest.labelling.project.contents import note_answered
from steepest.labelling.project.decisions import Decision, list_decisions, note_decision
from steepest.labelling.project.following import mark_copies
from steepest.labelling.project.history import find_image
from steepest.labelling.project.replaced import ask_again, keep_labels, mark_changed
from steepest.labelling.project.rescan import quick_budget
from steepest.labelling.project.resolve import ask_more
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store


class Deciding:
    """What people decide about many labels at once; all else stands in ``Project``."""

    photos: Path
    store: Store
    _settings: Settings
    _clock: Callable[[], float]

    def decisions(self, sample: str | None = None, *, limit: int = 20) -> list[Decision]:
        """Return who decided what for all, newest first.

        Args:
            sample: Only what is about this one; None is all.
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
            by: Who adds it.

        Raises:
            InputError: If it cannot be a class's name.
        """
        with self.store.writing() as connection:
            if add_class(connection, name):
                note_decision(connection, (by, self._clock()), "add class", detail=name)

    def rename_class(self, old: str, new: str, *, by: str = "") -> None:
        """Call a class otherwise; its labels stay.

        Args:
            old: What it is called.
            new: What it is called from now on.
            by: Who wants that.

        Raises:
            InputError: If there is no such class, or the name cannot be its own.
        """
        with self.store.writing() as connection:
            rename_class(connection, old, new)
            said = f"{old} → {new}"
            note_decision(connection, (by, self._clock()), "rename class", detail=said)

    def changed_mark(self) -> str:
        """Return what tells the labelled files that changed so far from any others."""
        with self.store.reading() as connection:
            return mark_changed(connection)

    def ask_again(
        self, samples: Sequence[str] | None = None, *, mark: str | None = None, by: str = ""
    ) -> int:
        """Ask again about labelled files that changed; their old answers stay in the history.

        Args:
            samples: Which of them; None is all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.
            by: Who decides.

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
        """Let the labels of files that changed hold for what is in them now.

        Those that are gone, or have changed again since the last look, are left.

        Args:
            samples: Which of them; None is all.
            mark: What ``changed_mark`` said of those that somebody has seen; None is any.
            by: Who decides.

        Returns:
            How many.

        Raises:
            InputError: If there is no such sample, or others have changed since.
        """
        with self.store.writing() as connection:
            _check_mark(mark, mark_changed(connection))
            kept = keep_labels(connection, self.photos, self._settings, samples)
            if kept:
                note_decision(connection, (by, self._clock()), "keep labels", images=kept)
        # Otherwise the next change would show only after a training.
        note_answered(self.store, self.photos, quick_budget())
        with self.store.writing() as connection:
            mark_copies(connection, self._settings)
        return len(kept)

    def ask_more(self) -> int:
        """Ask more people about images that were done under a smaller overlap; return how many."""
        with self.store.writing() as connection:
            return ask_more(connection, self._settings.overlap)


def _check_mark(seen: str | None, there: str) -> None:
    """Refuse a decision about files that nobody has seen."""
    if seen is not None and seen != there:
        raise InputError("other files have changed meanwhile; look at the list again, then decide")

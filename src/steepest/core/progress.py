"""Progress of long work: a bar on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from steepest.errors import InputError


class Step(Protocol):
    """One piece of work under way."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Say that ``amount`` more is done; ``note`` is shown beside it."""


class Progress(Protocol):
    """Shows how far pieces of work have come."""

    def task(self, description: str, total: int) -> AbstractContextManager[Step]:
        """Start a piece of work of a known size; a total of 0 means unknown."""


class SilentProgress:
    """Shows nothing."""

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Step]:  # noqa: ARG002
        """Start a piece of work without a display."""
        yield _Silent()


class LineProgress:
    """Writes a line to standard error at most every few seconds: for logs and pipes."""

    def __init__(self, every_seconds: float = 10.0) -> None:
        self._every_seconds = every_seconds

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Step]:
        """Start a piece of work; short ones pass without a line, others end with one."""
        line = _Line(description, total, self._every_seconds)
        yield line
        line.end()


class BarProgress:
    """Draws bars on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._depth = 0

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Step]:
        """Start a piece of work with its own bar."""
        if self._depth == 0:
            self._bars.start()
        self._depth += 1
        bar = self._bars.add_task(description, total=total or None, note="")
        try:
            yield _Bar(self._bars, bar)
        finally:
            self._bars.remove_task(bar)
            self._depth -= 1
            if self._depth == 0:
                self._bars.stop()


def show_progress(enabled: bool = True) -> Progress:
    """Return the display that suits standard error: bars, lines or nothing."""
    if not enabled or sys.stderr is None:
        return SilentProgress()
    # Bars are drawn over and over in one place, which not every terminal can do.
    can_draw = sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
    return BarProgress() if can_draw else LineProgress()


def as_progress(progress: bool | Progress) -> Progress:
    """Return the progress display: as given, suited to standard error, or none.

    Raises:
        InputError: If it is no way to show progress.
    """
    if isinstance(progress, bool):
        return show_progress(enabled=progress)
    if not hasattr(progress, "task"):
        raise InputError(f"progress must be True or False, not {progress!r}")
    return progress


class _Silent:
    def advance(self, amount: int = 1, note: str = "") -> None:
        pass


class _Line:
    def __init__(self, description: str, total: int, every_seconds: float) -> None:
        self._description = description
        self._total = total
        self._every_seconds = every_seconds
        self._done = 0
        self._note = ""
        self._told: int | None = None
        self._last = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        self._note = note
        now = time.monotonic()
        if now - self._last >= self._every_seconds:
            self._last = now
            self._write()

    def end(self) -> None:
        """Say the last state, if it was not said and an earlier one was."""
        if self._told not in (None, self._done):
            self._write()

    def _write(self) -> None:
        self._told = self._done
        of = f"/{self._total}" if self._total else ""
        line = f"{self._description}: {self._done}{of} {self._note}"
        sys.stderr.write(line.rstrip() + "\n")
        sys.stderr.flush()


class _Bar:
    def __init__(self, bars: Any, bar: Any) -> None:  # noqa: ANN401 - rich is imported late
        self._bars = bars
        self._bar = bar

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._bars.update(self._bar, advance=amount, note=note)

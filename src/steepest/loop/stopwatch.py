"""Seconds of the stages of a round."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up what each stage takes, until it is read."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Count what happens inside for a stage, also if it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self._seconds[stage] = self._seconds.get(stage, 0.0) + spent

    def take(self) -> dict[str, float]:
        """Return the seconds by stage, and begin anew."""
        taken, self._seconds = self._seconds, {}
        return {stage: round(spent, 6) for stage, spent in taken.items()}

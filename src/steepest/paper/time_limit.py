"""Long work that stops when its time is up, and keeps what is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from steepest.errors import SteepestError


class OutOfTime(SteepestError):  # noqa: N818 - no failure, but a reason to stop
    """The time that was given is up; the same command goes on from here."""


class TimeLimited:
    """Whatever begins nothing long after its deadline.

    Attributes:
        deadline: In the seconds of ``time.time()``; None sets no limit.
    """

    deadline: float | None

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return self.deadline is not None and time.time() >= self.deadline

    @contextmanager
    def as_far_as_time_allows(self) -> Iterator[list[str]]:
        """Do long work step by step; when the time is up, what is done so far is kept.

        Yields:
            A list that then holds a sentence about it, for ``Findings.missing``.
        """
        told: list[str] = []
        try:
            yield told
        except OutOfTime as error:
            told.append(str(error))

    def check_time(self) -> None:
        """Stop if the time that was given is up.

        Raises:
            OutOfTime: Then.
        """
        if self.out_of_time:
            raise OutOfTime("the time is up: run the same command again to go on")

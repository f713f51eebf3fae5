"""Progress in megabytes, where the work itself counts bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steepest.core.progress import Progress

_MEGABYTE = 10**6


@contextmanager
def count_megabytes(
    progress: Progress, description: str, total_bytes: int | None, done_bytes: int = 0
) -> Iterator[Callable[[int], None]]:
    """Start a piece of work and yield a function that takes further bytes.

    Args:
        progress: Where it is shown.
        description: What is under way.
        total_bytes: How much there is; None if nobody knows.
        done_bytes: How much was done before.
    """
    told = f"{description} (MB)" if total_bytes is not None else f"{description} (MB, no end told)"
    total = -(-(total_bytes or 0) // _MEGABYTE)
    with progress.task(told, total) as step:
        step.advance(done_bytes // _MEGABYTE)
        done = done_bytes

        def count(further_bytes: int) -> None:
            nonlocal done
            before, done = done, done + further_bytes
            step.advance(done // _MEGABYTE - before // _MEGABYTE)

        yield count

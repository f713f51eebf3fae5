"""Push and pull again and again, until people are done or someone stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from steepest.errors import DataError, InputError, PoolError, RunFolderError, SteepestError
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.ingest import Ingested
from steepest.labelling.label_studio.project import Project
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import Pictures, push


@dataclass(frozen=True)
class Turn:
    """One look at the server.

    Attributes:
        pushed: New tasks.
        pulled: The result of the pull; None if it failed.
        problem: Why not.
    """

    pushed: int = 0
    pulled: Ingested | None = None
    problem: SteepestError | None = None


def watch(
    folder: LoopFolder,
    project: Project,
    pictures: Pictures,
    reading: Reading,
    *,
    interval_seconds: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Turn]:
    """Yield one turn after another, for ever: send new picks, then take in new answers.

    A turn that fails is yielded with its problem, and the next one tries again: servers come
    back, people settle disagreements, other programs let go of the pool. Every turn is whole on
    the disk before it is yielded, so that stopping at any moment loses nothing.

    Raises:
        InputError: If the interval is not above 0.
    """
    if not interval_seconds > 0:
        raise InputError(f"--interval is {interval_seconds}; give seconds above 0")
    while True:
        pushed = 0
        try:
            pushed, _ = push(folder, project, pictures)
            turn = Turn(pushed, pull(folder, project, reading))
        except (DataError, InputError, PoolError, RunFolderError) as error:
            turn = Turn(pushed, problem=error)
        yield turn
        sleep(interval_seconds)

"""Progress and retry settings of work on files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from steepest.core.progress import Progress, SilentProgress
from steepest.core.web import Patience


def _keep_quiet(_: str) -> None:
    pass


@dataclass(frozen=True)
class Effort:
    """Settings shared by downloads, unpacking and checks.

    Attributes:
        progress: Where bytes are shown.
        tell: Takes a line about anything unusual.
        patience: When to give up on a server.
    """

    progress: Progress = field(default_factory=SilentProgress)
    tell: Callable[[str], None] = _keep_quiet
    patience: Patience = field(default_factory=Patience)

"""Retries of downloads and requests, with waiting times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Patience:
    """Limits after which a download gives up on a server.

    Attributes:
        retries: How often to try again in a row without a single new byte.
        first_wait_seconds: The wait before the first retry; each further one waits twice as long.
        timeout_seconds: How long a silent connection counts as alive.
        sleep: How to wait.
    """

    retries: int = 5
    first_wait_seconds: float = 1.0
    timeout_seconds: float = 30.0
    sleep: Callable[[float], None] = time.sleep

    def wait_seconds(self, failures: int, asked_seconds: float = 0.0) -> float:
        """Return how long to wait after so many failures in a row.

        Args:
            failures: Failures so far, from 1.
            asked_seconds: What the server itself asked for.
        """
        own = self.first_wait_seconds * 2.0 ** (failures - 1)
        return min(max(own, asked_seconds), _LONGEST_WAIT_SECONDS)

"""Comparisons within the process of the tests, where processes of their own are not the point.

Every worker that a comparison starts imports PyTorch anew, which takes longer than a small run.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module

import pytest


class SameProcess:
    """Does at once, here, what a pool of processes is given."""

    _processes = None

    def __init__(self, *_arguments) -> None:
        pass

    def submit(self, work, *arguments) -> Future:
        future = Future()
        future.set_result(work(*arguments))
        return future

    def shutdown(self, **_how) -> None:
        pass


@contextmanager
def runs_here() -> Iterator[None]:
    """Let comparisons start no process of their own."""
    module = import_module("steepest.experiment.compare")  # Its package has a function of the name.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "ProcessPoolExecutor", SameProcess)
        yield

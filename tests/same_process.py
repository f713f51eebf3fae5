"""Comparisons within the process of the tests, where processes of their own are not the point.

Every worker that a comparison starts imports PyTorch anew, which takes longer than a small run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest


class SameProcess:
    """Answers here what worker processes are asked."""

    def __init__(self, *_arguments, **_how) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def answers(self, make, common, items, meanwhile=lambda: None, told=lambda _: None):
        del told
        form = warnings.formatwarning  # A process of its own would change that of its own.
        work = make()
        warnings.formatwarning = form
        for number, item in enumerate(items):
            meanwhile()
            yield number, work(common, item)


@contextmanager
def runs_here() -> Iterator[None]:
    """Let comparisons start no process of their own."""
    module = import_module("steepest.experiment.compare")  # Its package has a function of the name.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "SpawnedWorkers", SameProcess)
        yield

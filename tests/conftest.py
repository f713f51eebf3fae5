"""Shared by all tests: one thread per process, so that parallel workers do not fight."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator

import pytest
import torch
from same_process import runs_here

torch.set_num_threads(1)


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and commands under test would too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # What is imported by now stays, and garbage is collected in milliseconds without it.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Take back what commands add to ``sys.path``: every process started later would search it."""
    before = sys.path[:]
    result = yield
    sys.path[:] = before
    return result


@pytest.fixture
def same_process():
    """Let comparisons start no process of their own."""
    with runs_here():
        yield

"""Shared by all tests: one thread per process, so that parallel workers do not fight."""

from __future__ import annotations

import gc
import signal

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


@pytest.fixture
def same_process():
    """Let comparisons start no process of their own."""
    with runs_here():
        yield

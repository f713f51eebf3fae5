"""A web server of one's own, and waits that take no time."""

from __future__ import annotations

import pytest
from file_server import serving

from steepest.data.download import Patience


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as state:
        yield state


@pytest.fixture
def waits():
    """The seconds that were waited for, in order."""
    return []


@pytest.fixture
def patience(waits):
    return Patience(retries=3, sleep=waits.append, timeout_seconds=10)

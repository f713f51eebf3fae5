"""A folder as a user has it: models, weights, a pool, a configuration."""

from __future__ import annotations

import sys

import pytest
from shell import fill_workshop


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    fill_workshop(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("user_models", None)
    yield tmp_path
    sys.modules.pop("user_models", None)

"""A loop, and a way to write label files for it."""

from __future__ import annotations

import pytest
from small_exchange import make_folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path)


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write

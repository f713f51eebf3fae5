"""A fake server, and a loop that uses it."""

from __future__ import annotations

import pytest
from fake_label_studio import serving
from small_loop import make_client, make_loop

from steepest.labelling.label_studio.project import ensure_project


@pytest.fixture
def server():
    with serving() as state:
        yield state


@pytest.fixture
def client(server):
    return make_client(server.url)


@pytest.fixture
def folder(tmp_path):
    return make_loop(tmp_path)


@pytest.fixture
def project(client, folder):
    return ensure_project(client, "steepest photos", folder.vocabulary)

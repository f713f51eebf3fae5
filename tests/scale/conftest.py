"""One Ray cluster for the tests of this folder, and workers that stay from test to test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "strategies"))  # contract.py

from ray_cluster import ray_cluster

from steepest.selecting import OnRay


@pytest.fixture(scope="session")
def cluster():
    with ray_cluster() as made:
        yield made


@pytest.fixture(scope="session")
def workers(cluster):
    """Two workers that stay from test to test: each takes seconds to import PyTorch."""
    del cluster
    with OnRay(workers=2) as engine:
        yield engine

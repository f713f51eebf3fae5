"""Shared by the tests of simulated subtomograms: a few shapes, and small volumes."""

from __future__ import annotations

import pytest

from steepest.data.cryoet import Settings, procedural_templates

SHAPES = ("ring-8", "barrel-7", "letter-u", "tripod", "icosahedron")


@pytest.fixture(scope="session")
def templates():
    return procedural_templates().take(SHAPES)


@pytest.fixture(scope="session")
def small():
    """Volumes of the usual 320 Å, but only 16 voxels a side."""
    return Settings(size_voxels=16, voxel_angstrom=20.0, shift_voxels=1.0)

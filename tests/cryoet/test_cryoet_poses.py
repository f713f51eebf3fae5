from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from steepest.core.seeds import keyed_uniform
from steepest.data.cryoet.poses import (
    balanced_classes,
    draw_poses,
    uniform_directions,
    uniform_rotations,
)
from steepest.data.cryoet.settings import Settings

RADII = torch.tensor([50.0, 80.0, 110.0])


def draw(indices, settings=None, seed=0, stream="train"):
    classes = torch.tensor(indices) % 3
    return draw_poses(seed, stream, indices, classes, RADII, settings or Settings())


def test_rotations_are_rotations():
    turned = uniform_rotations(keyed_uniform(0, "x", range(100), 3))
    unit = np.broadcast_to(np.eye(3), turned.shape)
    np.testing.assert_allclose(turned @ turned.transpose(0, 2, 1), unit, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turned), 1.0, atol=1e-12)


def test_rotations_are_uniform():
    turned = uniform_rotations(keyed_uniform(0, "x", range(20_000), 3))
    np.testing.assert_allclose(turned.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((turned**2).mean(axis=0), 1 / 3, atol=0.02)
    angles = np.arccos(np.clip((np.trace(turned, axis1=1, axis2=2) - 1) / 2, -1, 1))
    # Uniform rotations turn by an angle of density (1 - cos) / pi: half of them by 132.3 degrees.
    assert np.degrees(angles.mean()) == pytest.approx(90 + 360 / np.pi**2, abs=0.6)
    assert np.degrees(np.median(angles)) == pytest.approx(132.35, abs=1.0)


def test_directions_are_uniform():
    found = uniform_directions(keyed_uniform(0, "x", range(20_000), 2))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((found**2).mean(axis=0), 1 / 3, atol=0.02)


def test_shifts_fill_their_range_and_stay_in_it():
    shifts = draw(list(range(2000)), Settings(shift_voxels=6.0)).shifts_voxels[:, 0]
    assert float(shifts.abs().max()) <= 6.0
    assert float(shifts.amin(0).max()) < -5.9
    assert float(shifts.amax(0).min()) > 5.9


def test_defocus_is_fixed_or_fills_its_range():
    assert draw([1, 2, 3]).defocus_um.tolist() == [-5.0] * 3
    drawn = draw(list(range(500)), Settings(defocus_um=(-6.0, -2.0))).defocus_um
    assert -6.0 <= float(drawn.min()) < -5.9
    assert -2.1 < float(drawn.max()) <= -2.0


def test_a_pose_depends_on_seed_stream_and_index_alone():
    together, alone = draw([5, 6, 7]), draw([6])
    assert torch.equal(together.rotations[1], alone.rotations[0])
    assert torch.equal(together.shifts_voxels[1], alone.shifts_voxels[0])
    for other in (draw([6], seed=1), draw([6], stream="test"), draw([7])):
        assert not torch.equal(other.rotations[0], alone.rotations[0])


def test_neighbours_leave_the_particle_where_it_was():
    alone, crowded = draw([3, 4]), draw([3, 4], Settings(neighbours=4))
    assert crowded.bodies.shape == (2, 5)
    assert torch.equal(crowded.rotations[:, 0], alone.rotations[:, 0])
    assert torch.equal(crowded.shifts_voxels[:, 0], alone.shifts_voxels[:, 0])
    assert torch.equal(crowded.bodies[:, 0], alone.bodies[:, 0])


def test_neighbours_touch_the_particle_at_most():
    settings = Settings(neighbours=5, neighbour_gap_angstrom=30.0)
    poses = draw(list(range(60)), settings)
    assert sorted(set(poses.bodies[:, 1:].flatten().tolist())) == [0, 1, 2]
    apart = (poses.shifts_voxels[:, 1:] - poses.shifts_voxels[:, :1]).norm(dim=-1) * 10.0
    gaps = apart - RADII[poses.bodies[:, 1:]] - RADII[poses.bodies[:, :1]]
    assert -1e-6 < float(gaps.min()) < 2.0
    assert 28.0 < float(gaps.max()) <= 30.0
    wider = draw([0], replace(settings, neighbour_gap_angstrom=60.0))
    assert not torch.equal(wider.shifts_voxels[0, 1:], poses.shifts_voxels[0, 1:])


def test_classes_are_balanced_and_in_no_visible_order():
    classes = balanced_classes(0, "train", 500, 50)
    assert torch.bincount(classes).tolist() == [10] * 50
    assert classes[:50].tolist() != classes[50:100].tolist()
    assert sorted(classes[50:100].tolist()) == list(range(50))
    assert not torch.equal(classes, balanced_classes(1, "train", 500, 50))
    assert not torch.equal(classes, balanced_classes(0, "test", 500, 50))


def test_a_shorter_data_set_is_the_beginning_of_a_longer_one():
    longer = balanced_classes(0, "train", 130, 50)
    assert torch.equal(balanced_classes(0, "train", 70, 50), longer[:70])

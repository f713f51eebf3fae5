from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from steepest.core.seeds import generator, keyed_uniform
from steepest.data.cryoet.density import resample
from steepest.data.cryoet.poses import draw_poses, uniform_rotations
from steepest.data.cryoet.settings import Settings

STILL = torch.eye(3, dtype=torch.float64)[None]
MIDDLE = torch.zeros(1, 3, dtype=torch.float64)


def noise(*shape):
    return torch.rand(*shape, generator=generator(0, "maps"))


def resample_slowly(maps, rotations, shifts_voxels, size, zoom):
    """Do what ``resample`` does, in double precision, voxel by voxel."""
    result = torch.zeros(len(maps), size, size, size, dtype=torch.float64)
    for n, source in enumerate(maps.double().numpy()):
        rotation, shift = rotations[n].double().numpy(), shifts_voxels[n].double().numpy()
        for voxel in itertools.product(range(size), repeat=3):
            from_centre = np.array(voxel) - (size - 1) / 2 - shift
            place = rotation.T @ (from_centre * zoom) + (source.shape[0] - 1) / 2
            result[(n, *voxel)] = interpolate(source, place.tolist())
    return result


def interpolate(source, place):
    """Return the weighted mean of the eight voxels around a place; those outside are 0."""
    total = 0.0
    low = [math.floor(p) for p in place]
    for corner in itertools.product((0, 1), repeat=3):
        voxel = tuple(a + b for a, b in zip(low, corner, strict=True))
        weight = math.prod(1.0 - abs(p - v) for p, v in zip(place, voxel, strict=True))
        if all(0 <= v < side for v, side in zip(voxel, source.shape, strict=True)):
            total += weight * float(source[voxel])
    return total


def test_the_fast_way_agrees_with_the_slow_one():
    maps = noise(3, 12, 12, 12)
    turned = torch.from_numpy(uniform_rotations(keyed_uniform(3, "r", range(3), 3)))
    shifts = torch.tensor([[0.0, 0.0, 0.0], [0.7, -1.3, 0.2], [-2.5, 3.0, 1.1]]).double()
    fast = resample(maps, turned, shifts, 8, 1.7)
    slow = resample_slowly(maps, turned, shifts, 8, 1.7)
    torch.testing.assert_close(fast.double(), slow, rtol=0, atol=2e-5)
    assert float(slow.std()) > 0.1


def test_the_fast_way_agrees_on_a_real_pose(templates):
    poses = draw_poses(0, "train", [4], torch.tensor([1]), torch.ones(5), Settings())
    place = (poses.rotations[:, 0], poses.shifts_voxels[:, 0])
    fast = resample(templates.maps[1:2], *place, 10, 6.0)
    slow = resample_slowly(templates.maps[1:2], *place, 10, 6.0)
    scale = float(slow.max())
    torch.testing.assert_close(fast.double() / scale, slow / scale, rtol=0, atol=1e-5)


def test_without_a_pose_voxels_are_averaged_by_eights():
    maps = noise(1, 16, 16, 16)
    binned = torch.nn.functional.avg_pool3d(maps[:, None], 2)[:, 0]
    torch.testing.assert_close(resample(maps, STILL, MIDDLE, 8, 2.0), binned, rtol=0, atol=1e-6)


def test_half_a_turn_equals_flips():
    maps = noise(1, 16, 16, 16)
    upright = resample(maps, STILL, MIDDLE, 8, 2.0)
    for axis in range(3):
        signs = [-1.0] * 3
        signs[axis] = 1.0
        turned = resample(maps, torch.diag(torch.tensor(signs).double())[None], MIDDLE, 8, 2.0)
        others = [1 + a for a in range(3) if a != axis]
        torch.testing.assert_close(turned, upright.flip(others), rtol=0, atol=1e-6)


def test_a_quarter_turn_about_z_moves_x_to_y():
    """Matrices act on (z, y, x), and turn the particle rather than the axes."""
    maps = torch.zeros(1, 9, 9, 9)
    maps[0, 4, 4, 7] = 1.0
    quarter = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]).double()[None]
    assert resample(maps, quarter, MIDDLE, 9, 1.0).nonzero().tolist() == [[0, 4, 7, 4]]


def test_a_shift_moves_the_particle_that_way_after_the_turn():
    maps = torch.zeros(1, 9, 9, 9)
    maps[0, 4, 4, 7] = 1.0
    shift = torch.tensor([[1.0, 0.0, -2.0]]).double()
    assert resample(maps, STILL, shift, 9, 1.0).nonzero().tolist() == [[0, 5, 4, 5]]
    quarter = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]).double()[None]
    assert resample(maps, quarter, shift, 9, 1.0).nonzero().tolist() == [[0, 5, 7, 2]]


def test_nothing_is_outside_a_map():
    far = torch.tensor([[20.0, 0.0, 0.0]]).double()
    assert float(resample(noise(1, 8, 8, 8) + 1, STILL, far, 8, 1.0).abs().max()) == 0.0

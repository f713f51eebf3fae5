"""Random poses of particles, drawn for each index from the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.data.cryoet.settings import Settings

_COLUMNS = 7
"""Random numbers for one body; the particle's come first, so neighbours never change it."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Poses:
    """The bodies of N volumes: the particle first, its B - 1 neighbours after it.

    Axes are in the order of a volume's: z (the beam), y (the tilt axis), x.

    Attributes:
        bodies: Class of each body, int64 [N, B].
        rotations: float64 [N, B, 3, 3].
        shifts_voxels: From the centre of the volume, float64 [N, B, 3].
        defocus_um: float64 [N].
    """

    bodies: Tensor
    rotations: Tensor
    shifts_voxels: Tensor
    defocus_um: Tensor


def draw_poses(
    seed: int, stream: str, indices: Sequence[int], classes: Tensor, radii_angstrom: Tensor,
    settings: Settings,
) -> Poses:  # fmt: skip
    """Draw the pose of each index.

    Args:
        seed: Of the data set.
        stream: The part of it, such as ``"train"``; parts are independent.
        indices: The volumes [N].
        classes: Their classes, int64 [N].
        radii_angstrom: Of all classes' particles [K]; neighbours keep off each other by it.
        settings: How far particles are shifted, and how many neighbours they have.
    """
    count = 1 + settings.neighbours
    drawn = keyed_uniform(seed, f"cryoet {stream} pose", indices, _COLUMNS * count)
    draws = drawn.reshape(len(indices), count, _COLUMNS)
    shifts = (2.0 * draws[:, :, 3:6] - 1.0) * settings.shift_voxels
    low, high = settings.defocus_um
    kinds = len(radii_angstrom)
    others = np.minimum((draws[:, :, 6] * kinds).astype(np.int64), kinds - 1)
    bodies = torch.cat([classes[:, None], torch.from_numpy(others[:, 1:])], dim=1)
    if settings.neighbours:
        radii = radii_angstrom.double().numpy()[bodies.numpy()]
        gaps = draws[:, 1:, 5] * settings.neighbour_gap_angstrom
        distances = (radii[:, :1] + radii[:, 1:] + gaps) / settings.voxel_angstrom
        directions = uniform_directions(draws[:, 1:, 3:5])
        shifts[:, 1:] = shifts[:, :1] + distances[:, :, None] * directions
    return Poses(
        bodies=bodies,
        rotations=torch.from_numpy(uniform_rotations(draws[:, :, :3])),
        shifts_voxels=torch.from_numpy(shifts),
        defocus_um=torch.from_numpy(low + (high - low) * draws[:, 0, 6]),
    )


def balanced_classes(seed: int, stream: str, count: int, kinds: int) -> Tensor:
    """Give each of ``count`` indices a class, each class equally often, in no visible order.

    Every run of ``kinds`` indices holds each class once, so that a shorter data set is the
    beginning of a longer one.

    Returns:
        Classes, int64 [count].
    """
    blocks = -(-count // kinds)
    keys = keyed_uniform(seed, f"cryoet {stream} classes", range(blocks * kinds))
    order = np.argsort(keys.reshape(blocks, kinds), axis=1, kind="stable")
    return torch.from_numpy(order.reshape(-1)[:count].astype(np.int64))


def uniform_rotations(uniform: Array) -> Array:
    """Turn three uniform numbers in [0, 1) into a rotation, each orientation as likely.

    Args:
        uniform: Draws [..., 3].

    Returns:
        Rotation matrices [..., 3, 3].
    """
    share, first, second = (uniform[..., column] for column in range(3))
    # Two independent points on circles make a uniform point on the sphere in four dimensions.
    inner, outer = np.sqrt(1.0 - share), np.sqrt(share)
    first, second = 2.0 * np.pi * first, 2.0 * np.pi * second
    parts = (
        inner * np.sin(first), inner * np.cos(first), outer * np.sin(second), outer * np.cos(second)
    )  # fmt: skip
    return _to_matrices(*parts)


def uniform_directions(uniform: Array) -> Array:
    """Turn two uniform numbers in [0, 1) into a direction, each one as likely.

    Args:
        uniform: Draws [..., 2].

    Returns:
        Unit vectors [..., 3].
    """
    height = 2.0 * uniform[..., 0] - 1.0
    angle = 2.0 * np.pi * uniform[..., 1]
    width = np.sqrt(1.0 - height**2)
    return np.stack([height, width * np.sin(angle), width * np.cos(angle)], axis=-1)


def _to_matrices(x: Array, y: Array, z: Array, w: Array) -> Array:
    """Return the matrices of unit quaternions."""
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

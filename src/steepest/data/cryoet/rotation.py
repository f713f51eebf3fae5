"""Rotations, uniform over all orientations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


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

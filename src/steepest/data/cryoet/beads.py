"""Places of beads that shapes are put together from: rings, lines, coils, solids."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Beads = npt.NDArray[np.float64]
"""Coordinates in Å, in the order z, y, x [A, 3]."""

_GOLDEN = (1.0 + 5.0**0.5) / 2.0


def ring(count: int, radius: float, height: float = 0.0, turn: float = 0.0) -> Beads:
    """Put beads evenly on a circle; ``turn`` is in steps between two beads."""
    return arc(count, radius, 2.0 * np.pi * (1 - 1 / count), height, 2.0 * np.pi * turn / count)


def arc(count: int, radius: float, angle: float, height: float = 0.0, start: float = 0.0) -> Beads:
    """Put beads on a part of a circle; angles are in radians."""
    angles = start + np.linspace(0.0, angle, count)
    return np.stack(
        [np.full(count, height), radius * np.sin(angles), radius * np.cos(angles)], axis=1
    )


def stack(counts: list[int], radii: list[float], rise: float, turn: float = 0.0) -> Beads:
    """Stack rings, each turned a little against the one below."""
    rings = [
        ring(count, radius, level * rise, level * turn)
        for level, (count, radius) in enumerate(zip(counts, radii, strict=True))
    ]
    return np.concatenate(rings)


def line(start: tuple[float, float, float], end: tuple[float, float, float], count: int) -> Beads:
    """Put beads on a straight line, both ends included."""
    return np.linspace(start, end, count)


def path(corners: list[tuple[float, float]], spacing: float) -> Beads:
    """Put beads along straight strokes in a plane, about ``spacing`` apart."""
    strokes = []
    for (y0, x0), (y1, x1) in itertools.pairwise(corners):
        count = max(2, round(float(np.hypot(y1 - y0, x1 - x0)) / spacing) + 1)
        strokes.append(line((0.0, y0, x0), (0.0, y1, x1), count))
    return np.unique(np.concatenate(strokes).round(6), axis=0)


def coil(count: int, radius: float, rise: float, step: float, start: float = 0.0) -> Beads:
    """Put beads on a helix: ``rise`` and ``step`` (radians) from bead to bead."""
    angles = start + step * np.arange(count)
    return np.stack(
        [rise * np.arange(count), radius * np.sin(angles), radius * np.cos(angles)], axis=1
    )


def star(directions: Beads, spacing: float, count: int) -> Beads:
    """Put a bead in the middle and ``count`` beads along each direction."""
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = spacing * np.arange(1, count + 1)
    arms = (unit[:, None, :] * lengths[None, :, None]).reshape(-1, 3)
    return np.concatenate([np.zeros((1, 3)), arms])


def lattice(counts: tuple[int, int, int], spacing: float, start_x: float = 0.0) -> Beads:
    """Put beads on a rectangular lattice that begins at ``start_x``."""
    axes = [spacing * np.arange(count, dtype=np.float64) for count in counts]
    axes[2] += start_x
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def corners(solid: str, radius: float) -> Beads:
    """Return the corners of a regular solid at a distance from its centre."""
    found = np.array(_SOLIDS[solid], dtype=np.float64)
    found *= radius / np.linalg.norm(found, axis=1, keepdims=True)
    return found


def _signs(*values: float) -> list[tuple[float, ...]]:
    each = [(v,) if v == 0 else (v, -v) for v in values]
    return list(itertools.product(*each))


def _cycled(values: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    return [row[shift:] + row[:shift] for row in values for shift in range(3)]


_SOLIDS: dict[str, list[tuple[float, ...]]] = {
    "tetrahedron": [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)],
    "octahedron": _cycled(_signs(1, 0, 0)),
    "cube": _signs(1, 1, 1),
    "icosahedron": _cycled(_signs(0, 1, _GOLDEN)),
    "dodecahedron": _signs(1, 1, 1) + _cycled(_signs(0, 1 / _GOLDEN, _GOLDEN)),
}

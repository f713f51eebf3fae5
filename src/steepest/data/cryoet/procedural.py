"""Fifty made-up complexes of beads, so that everything runs without a download.

They are no proteins. Each bead stands for a globular one of 40 kDa, and they are as large as real
complexes are: 160 kDa to 2 MDa.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from steepest.data.cryoet.density import gaussian_density
from steepest.data.cryoet.templates import BOX_VOXEL_ANGSTROM, Templates

_BEAD_KDA = 40.0
_BEAD_SIGMA_ANGSTROM = 13.0
Beads = npt.NDArray[np.float64]
"""Coordinates in Å, in the order z, y, x [A, 3]."""

_GOLDEN = (1.0 + 5.0**0.5) / 2.0


def _join(*parts: Beads) -> Beads:
    return np.concatenate(parts)


def _flat(count: int) -> Beads:
    """Return evenly spread directions in a plane."""
    return ring(count, 1.0)


_SHAPES: dict[str, Callable[[], Beads]] = {
    # rings
    "ring-5": lambda: ring(5, 45.0),
    "ring-6": lambda: ring(6, 60.0),
    "ring-8": lambda: ring(8, 70.0),
    "ring-11": lambda: ring(11, 90.0),
    "ring-16": lambda: ring(16, 115.0),
    "nested-rings": lambda: _join(ring(6, 45.0), ring(14, 100.0)),
    "crossed-rings": lambda: _join(ring(10, 85.0), ring(10, 85.0)[:, [1, 0, 2]]),
    "half-ring": lambda: arc(7, 85.0, np.pi),
    "open-ring": lambda: arc(10, 70.0, 1.5 * np.pi),
    "ring-with-hub": lambda: _join(ring(9, 75.0), np.zeros((3, 3))),
    # stacked rings
    "double-ring-5": lambda: stack([5, 5], [45.0, 45.0], 50.0),
    "double-ring-7": lambda: stack([7, 7], [65.0, 65.0], 55.0, 0.5),
    "double-ring-10": lambda: stack([10, 10], [90.0, 90.0], 45.0, 0.5),
    "uneven-rings": lambda: stack([5, 10], [45.0, 95.0], 50.0),
    "barrel-4": lambda: stack([4] * 5, [32.0] * 5, 38.0, 0.5),
    "barrel-6": lambda: stack([6] * 3, [52.0] * 3, 42.0),
    "barrel-7": lambda: stack([7] * 4, [55.0] * 4, 42.0, 0.5),
    "barrel-9": lambda: stack([9] * 3, [80.0] * 3, 50.0),
    "capped-barrel": lambda: stack([1, 6, 7, 7, 6, 1], [0.0, 40.0, 58.0, 58.0, 40.0, 0.0], 42.0),
    "one-cap-barrel": lambda: stack([7, 7, 6, 1], [58.0, 58.0, 45.0, 0.0], 42.0),
    "hourglass": lambda: stack([8, 5, 3, 5, 8], [75.0, 45.0, 22.0, 45.0, 75.0], 40.0),
    "cone": lambda: stack([1, 4, 7, 10], [0.0, 32.0, 62.0, 92.0], 42.0),
    # rods and coils
    "rod-4": lambda: line((0, 0, 0), (0, 0, 120), 4),
    "rod-7": lambda: line((0, 0, 0), (0, 0, 240), 7),
    "thick-rod": lambda: lattice((2, 2, 6), 42.0),
    "two-rods": lambda: _join(line((0, 0, 0), (0, 0, 200), 6), line((0, 90, 0), (0, 90, 200), 6)),
    "cross": lambda: _join(line((0, 0, -110), (0, 0, 110), 7), line((0, -110, 0), (0, 110, 0), 7)),
    "tight-coil": lambda: coil(16, 45.0, 11.0, np.pi / 3),
    "loose-coil": lambda: coil(16, 55.0, 14.0, np.pi / 5),
    "wide-coil": lambda: coil(18, 95.0, 5.0, np.pi / 6),
    "double-coil": lambda: _join(*(coil(10, 55.0, 22.0, np.pi / 5, s) for s in (0.0, np.pi))),
    # spokes and stars
    "spokes-3": lambda: star(_flat(3), 38.0, 3),
    "spokes-4": lambda: star(_flat(4), 38.0, 2),
    "spokes-6": lambda: star(_flat(6), 42.0, 3),
    "tripod": lambda: star(
        np.array([[-0.7, 1, 0], [-0.7, -0.5, 0.87], [-0.7, -0.5, -0.87]]), 40, 3
    ),
    "four-arms": lambda: star(corners("tetrahedron", 1.0), 42.0, 3),
    "six-arms": lambda: star(corners("octahedron", 1.0), 40.0, 2),
    "wheel": lambda: _join(star(_flat(5), 42.0, 2), ring(15, 115.0)),
    # solids
    "tetrahedron": lambda: corners("tetrahedron", 50.0),
    "cube": lambda: corners("cube", 80.0),
    "icosahedron": lambda: corners("icosahedron", 70.0),
    "dodecahedron": lambda: corners("dodecahedron", 115.0),
    "plate": lambda: lattice((1, 4, 4), 42.0),
    "block": lambda: lattice((3, 3, 3), 40.0),
    # letters and compounds
    "letter-l": lambda: path([(120, 0), (0, 0), (0, 90)], 36.0),
    "letter-u": lambda: path([(150, 0), (0, 0), (0, 110), (150, 110)], 36.0),
    "letter-z": lambda: path([(130, 0), (130, 110), (0, 0), (0, 110)], 36.0),
    "dumbbell": lambda: _join(lattice((2, 2, 2), 40.0), lattice((2, 2, 2), 40.0, 150.0)),
    "mushroom": lambda: _join(ring(9, 75.0), line((0, 0, 0), (140, 0, 0), 5)),
    "hammer": lambda: _join(lattice((2, 5, 2), 38.0), line((19, 76, 76), (19, 76, 152), 3)),
}


@cache
def procedural_templates() -> Templates:
    """Return the fifty built-in shapes as templates."""
    names = tuple(_SHAPES)
    maps = torch.stack([_density(_SHAPES[name]()) for name in names])
    titles = tuple(name.replace("-", " ") for name in names)
    return Templates(names, titles, maps, BOX_VOXEL_ANGSTROM, "procedural")


def _density(beads: Beads) -> torch.Tensor:
    masses = np.full(len(beads), _BEAD_KDA)
    return gaussian_density(beads, masses, _BEAD_SIGMA_ANGSTROM)


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

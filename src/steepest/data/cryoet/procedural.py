"""Fifty made-up complexes of beads, so that everything runs without a download.

They are no proteins. Each bead stands for a globular one of 40 kDa, and they are as large as real
complexes are: 160 kDa to 2 MDa.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from steepest.data.cryoet.beads import (
    Beads,
    arc,
    coil,
    corners,
    lattice,
    line,
    path,
    ring,
    stack,
    star,
)
from steepest.data.cryoet.density import gaussian_density
from steepest.data.cryoet.templates import BOX_VOXEL_ANGSTROM, Templates

_BEAD_KDA = 40.0
_BEAD_SIGMA_ANGSTROM = 13.0


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

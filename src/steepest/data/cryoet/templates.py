"""Density maps of the particles, one for each class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.errors import DataError

BOX_VOXELS = 64
"""Side of the maps that this package makes from structures and shapes."""

BOX_VOXEL_ANGSTROM = 5.0
"""Side of a voxel of these maps."""

_RADIUS_HOLDS = 0.95


@dataclass(frozen=True, eq=False)
class Templates:
    """Density maps of one size; axes are in the order z, y, x.

    Attributes:
        names: Short names of the classes [K].
        titles: What they are, for people [K].
        maps: Densities, none below 0, float32 [K, S, S, S].
        voxel_angstrom: Side of a voxel.
        source: Where they come from, in a word or two.

    Raises:
        DataError: If the maps cannot be templates.
    """

    names: tuple[str, ...]
    titles: tuple[str, ...]
    maps: Tensor
    voxel_angstrom: float
    source: str

    def __post_init__(self) -> None:
        maps = self.maps
        if maps.dtype != torch.float32 or maps.dim() != 4 or len(set(maps.shape[1:])) != 1:
            found = f"{maps.dtype} {list(maps.shape)}"
            raise DataError(f"{self.source} templates must be float32 [K, S, S, S], not {found}")
        if not len(maps) == len(self.names) == len(self.titles) or not self.names:
            raise DataError(f"{self.source} templates: {len(maps)} maps, {len(self.names)} names")
        if len(set(self.names)) != len(self.names):
            raise DataError(f"{self.source} templates: two have the same name")
        if not self.voxel_angstrom > 0:
            raise DataError(f"{self.source} templates: voxels of {self.voxel_angstrom} Å")
        for name, density in zip(self.names, maps, strict=True):
            low, high = density.aminmax()
            # Comparisons that NaN fails.
            if not (bool(low >= 0) and bool(high > 0) and bool(high < torch.inf)):
                raise DataError(
                    f"{self.source} template {name!r} is empty, negative or not finite; replace it"
                )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        side = self.maps.shape[-1]
        size = f"{side}³ voxels of {self.voxel_angstrom:g} Å"
        return f"Templates({len(self)} classes of {size}, {self.source})"

    def take(self, names: tuple[str, ...]) -> Templates:
        """Return some of them, in the order of ``names``.

        Raises:
            DataError: If one is not there.
        """
        known = {name: row for row, name in enumerate(self.names)}
        missing = [name for name in names if name not in known]
        if missing:
            raise DataError(f"{self.source} templates: {missing[0]!r} is not among them")
        rows = [known[name] for name in names]
        titles = tuple(self.titles[row] for row in rows)
        return Templates(names, titles, self.maps[rows], self.voxel_angstrom, self.source)

    def radii_angstrom(self) -> Tensor:
        """Return the radius about the centre that holds 95 % of each map's mass [K]."""
        side = self.maps.shape[-1]
        # In half voxels all distances are whole numbers, and equal ones can be added up.
        halves = 2 * torch.arange(side) - (side - 1)
        squared = (halves[:, None, None] ** 2 + halves[:, None] ** 2 + halves**2).flatten()
        found = []
        for density in self.maps:
            mass = torch.bincount(squared, weights=density.flatten().double()).cumsum(dim=0)
            found.append(int((mass < _RADIUS_HOLDS * mass[-1]).sum()))
        return torch.tensor(found, dtype=torch.float64).sqrt() * (self.voxel_angstrom / 2)

    def fingerprint(self) -> str:
        """Return a text that is the same for equal maps alone."""
        digest = hashlib.sha256(repr((self.names, self.voxel_angstrom)).encode())
        digest.update(self.maps.contiguous().numpy().tobytes())
        return digest.hexdigest()

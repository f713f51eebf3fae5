"""Density maps of the particles, one for each class, and the archive that holds them.

``templates_5A_64_u8.npz`` holds ``maps`` (uint8 [K, S, S, S]), ``ids``, ``core50`` (which ones
make a data set of fifty classes), ``mass_kda`` and ``voxel`` (Å); ``templates_meta.json`` is a
list of objects with at least ``id`` and ``name``.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.errors import DataError

BOX_VOXELS = 64
"""Side of the maps that this package makes from structures and shapes."""

BOX_VOXEL_ANGSTROM = 5.0
"""Side of a voxel of these maps."""

_RADIUS_HOLDS = 0.95
ARCHIVE = "templates_5A_64_u8.npz"
DESCRIPTION = "templates_meta.json"
_INSTEAD = {"4hne": "5vkq"}
"""Core templates that a spare one replaces where both are there."""


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


def read_template_archive(folder: Path, *, core: bool = True) -> Templates:
    """Read templates from a folder.

    Args:
        folder: The location of the two files.
        core: Whether to return only those marked as the core of a data set.

    Raises:
        DataError: If a file is missing or damaged.
    """
    path = folder / ARCHIVE
    arrays = _read_arrays(path)
    ids = [str(i) for i in arrays["ids"].tolist()]
    titles = _read_titles(folder / DESCRIPTION)
    unknown = [i for i in ids if i not in titles]
    if unknown:
        raise DataError(f"{folder / DESCRIPTION}: says nothing of template {unknown[0]!r}")
    maps = torch.from_numpy(arrays["maps"]).float()
    masses = torch.from_numpy(arrays["mass_kda"].astype(np.float64))
    totals = maps.sum(dim=(1, 2, 3), dtype=torch.float64)
    if not bool((totals > 0).all()) or not bool(((masses > 0) & (masses < torch.inf)).all()):
        raise DataError(f"{path}: a map is empty, or a mass is not above 0")
    # Each map has its own scale; masses make them comparable.
    maps *= (masses / totals).float()[:, None, None, None]
    every = Templates(
        tuple(ids), tuple(titles[i] for i in ids), maps, float(arrays["voxel"]), "archive"
    )
    return every.take(_choose_core(ids, arrays["core50"].tolist())) if core else every


def write_template_archive(templates: Templates, folder: Path) -> None:
    """Write templates so that they can be read again; all are marked as core.

    Densities are rounded to 255 steps.

    Raises:
        InputError: If the folder cannot be written to.
    """
    maps = templates.maps / templates.maps.amax(dim=(1, 2, 3), keepdim=True)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        maps=(maps * 255.0).round().to(torch.uint8).numpy(),
        ids=np.array(templates.names),
        core50=np.ones(len(templates), dtype=bool),
        mass_kda=templates.maps.sum(dim=(1, 2, 3)).numpy(),
        voxel=np.float32(templates.voxel_angstrom),
    )
    described = [
        {"id": name, "name": title}
        for name, title in zip(templates.names, templates.titles, strict=True)
    ]
    write_atomically(folder / DESCRIPTION, json.dumps(described, indent=1) + "\n")
    write_atomically(folder / ARCHIVE, content.getvalue())


def _choose_core(ids: list[str], core: list[bool]) -> tuple[str, ...]:
    chosen = [name for name, kept in zip(ids, core, strict=True) if kept]
    spare = set(ids) - set(chosen)
    return tuple(_INSTEAD[i] if _INSTEAD.get(i) in spare else i for i in chosen)


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file) as archive:
            arrays = {
                name: archive[name] for name in ("maps", "ids", "core50", "mass_kda", "voxel")
            }
    except FileNotFoundError as error:
        raise DataError(f"{path}: missing; put it there, or use procedural templates") from error
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: truncated or damaged; get it again") from error
    maps = arrays["maps"]
    columns = [arrays[name] for name in ("ids", "core50", "mass_kda")]
    bytes_of_cubes = maps.dtype == np.uint8 and maps.ndim == 4 and len(set(maps.shape[1:])) == 1
    if not bytes_of_cubes or any(c.shape != (len(maps),) for c in columns):
        raise DataError(f"{path}: not one id, mass and uint8 cube for each template")
    if arrays["voxel"].shape or arrays["core50"].dtype != bool:
        raise DataError(f"{path}: voxel must be one number, core50 true or false for each template")
    return arrays


def _read_titles(path: Path) -> dict[str, str]:
    try:
        described = parse_json(path.read_text(encoding="utf-8"))
        return {str(item["id"]): str(item["name"]) for item in described}
    except FileNotFoundError as error:
        raise DataError(f"{path}: missing; put it beside {ARCHIVE}") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not a list of objects with id and name") from error

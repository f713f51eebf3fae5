"""Templates in one file: bytes of density maps in an npz, and a JSON list of what they are.

``templates_5A_64_u8.npz`` holds ``maps`` (uint8 [K, S, S, S]), ``ids``, ``core50`` (which ones
make a data set of fifty classes), ``mass_kda`` and ``voxel`` (Å); ``templates_meta.json`` is a
list of objects with at least ``id`` and ``name``.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.data.cryoet.templates import Templates
from steepest.errors import DataError

ARCHIVE = "templates_5A_64_u8.npz"
DESCRIPTION = "templates_meta.json"

_INSTEAD = {"4hne": "5vkq"}
"""Core templates that a spare one replaces where both are there."""


def read_template_archive(folder: Path, *, core: bool = True) -> Templates:
    """Read templates from a folder.

    Args:
        folder: Where the two files are.
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
    # Each map has a scale of its own; masses make them comparable.
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

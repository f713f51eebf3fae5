"""Density maps in MRC files: a folder of them is a set of templates, one class each."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.data.cryoet.density import resample
from steepest.data.cryoet.templates import BOX_VOXEL_ANGSTROM, BOX_VOXELS, Templates
from steepest.errors import DataError, InputError, first_line

MRC_SUFFIXES = (".mrc", ".map", ".mrc.gz", ".map.gz")

_LEAST_INSIDE = 0.99


def read_mrc_folder(folder: Path) -> Templates:
    """Read every MRC file of a folder; classes are named by the files.

    Args:
        folder: The location of the files; subfolders are not searched.

    Raises:
        InputError: If the library that reads MRC files is not installed.
        DataError: If there are none, or one cannot be used.
    """
    paths = sorted(p for p in folder.glob("*") if p.name.lower().endswith(MRC_SUFFIXES))
    if not paths:
        raise DataError(f"{folder}: no MRC files in it")
    names = tuple(path.name.partition(".")[0] for path in paths)
    maps = torch.stack([read_mrc(path) for path in paths])
    return Templates(names, names, maps, BOX_VOXEL_ANGSTROM, "MRC")


def read_mrc(path: Path) -> Tensor:
    """Read one map, put its centre of mass in the middle, and resample it for a template.

    Returns:
        Densities up to 1, float32 [64, 64, 64] of 5 Å a voxel.

    Raises:
        InputError: If the library that reads MRC files is not installed.
        DataError: If the file cannot be used.
    """
    density, voxel_angstrom = _read(path)
    density = np.where(density > 0.0, density, 0.0)
    if not np.isfinite(density).all() or not density.any():
        raise DataError(f"{path}: no density above 0, or values that are not finite")
    cube = torch.from_numpy(_to_cube(density))
    zoom = BOX_VOXEL_ANGSTROM / voxel_angstrom
    if zoom > 1.0:
        # Detail that the coarser grid cannot hold would come back as stripes.
        cube = _blur(cube, sigma_voxels=0.5 * math.sqrt(zoom**2 - 1.0))
    still = torch.eye(3, dtype=torch.float64)[None]
    centred = resample(cube[None], still, _centre(cube)[None] / -zoom, BOX_VOXELS, zoom)[0]
    inside = float(centred.double().sum() * zoom**3 / cube.double().sum())
    if inside < _LEAST_INSIDE:
        box = BOX_VOXELS * BOX_VOXEL_ANGSTROM
        raise DataError(f"{path}: {1 - inside:.0%} of the mass is outside a box of {box:g} Å")
    # Maps come in scales of their own; among neighbours all should be as dense.
    return centred.clamp(min=0.0) / centred.max()


def _read(path: Path) -> tuple[npt.NDArray[np.float64], float]:
    """Return the densities in the order z, y, x, and the side of a voxel."""
    try:
        import mrcfile
    except ImportError as error:
        raise InputError(
            "MRC files need the package mrcfile: run pip install 'steepest[cryoet]'"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # NumPy deprecates what mrcfile does; that says nothing of the file.
            warnings.simplefilter("ignore", DeprecationWarning)
            with mrcfile.open(path, mode="r") as file:
                data = np.array(file.data, dtype=np.float64)
                sides = [float(file.voxel_size[axis]) for axis in "xyz"]
                order = [int(file.header[name]) for name in ("maps", "mapr", "mapc")]
    except Exception as error:  # the library raises almost anything on damaged bytes
        raise DataError(f"{path}: not a readable MRC file ({first_line(error)})") from error
    if data.ndim != 3 or sorted(order) != [1, 2, 3]:
        raise DataError(f"{path}: not one three-dimensional map")
    if not all(0 < side <= 1.001 * min(sides) < math.inf for side in sides):
        raise DataError(f"{path}: voxels of {sides} Å; they must be cubes of a known side")
    # Axis numbers are 1 for x to 3 for z; sorting them from z down puts the array in our order.
    return np.transpose(data, np.argsort([-axis for axis in order])), sides[0]


def _to_cube(density: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    side = max(density.shape)
    gaps = [side - length for length in density.shape]
    padding = [(gap // 2, gap - gap // 2) for gap in gaps]
    return np.pad(density, padding).astype(np.float32)


def _centre(cube: Tensor) -> Tensor:
    """Return how far the centre of mass is from the middle, in voxels [3]."""
    steps = torch.arange(len(cube), dtype=torch.float64) - (len(cube) - 1) / 2
    whole = cube.double()
    along = [whole.sum(dim=[a for a in range(3) if a != axis]) for axis in range(3)]
    return torch.stack([(profile * steps).sum() for profile in along]) / whole.sum()


def _blur(cube: Tensor, sigma_voxels: float) -> Tensor:
    margin = math.ceil(3.0 * sigma_voxels)
    padded = torch.nn.functional.pad(cube, [margin] * 6)
    waves = torch.fft.fftfreq(len(padded), dtype=torch.float64)
    gaussian = torch.exp(-2.0 * (math.pi * sigma_voxels * waves) ** 2).float()
    spectrum = torch.fft.fftn(padded)
    spectrum *= gaussian[:, None, None] * gaussian[:, None] * gaussian
    blurred: Tensor = torch.fft.ifftn(spectrum).real.clamp(min=0.0)
    return blurred.contiguous()

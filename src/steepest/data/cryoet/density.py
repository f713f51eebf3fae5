"""Density maps: from masses blurred by a Gaussian; turned, shifted and resampled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.data.cryoet.templates import BOX_VOXEL_ANGSTROM, BOX_VOXELS
from steepest.errors import DataError, InputError

_CHUNK = 2048
_LEAST_INSIDE = 0.99


def gaussian_density(
    places_angstrom: npt.NDArray[np.float64],
    masses: npt.NDArray[np.float64],
    sigma_angstrom: float,
    size: int = BOX_VOXELS,
    voxel_angstrom: float = BOX_VOXEL_ANGSTROM,
) -> Tensor:
    """Spread each mass over a Gaussian and put the centre of mass in the middle of a box.

    Args:
        places_angstrom: Coordinates in the order z, y, x [A, 3].
        masses: The mass of each [A].
        sigma_angstrom: Standard deviation of the Gaussian.
        size: Side of the box.
        voxel_angstrom: Side of a voxel.

    Returns:
        Mass in each voxel, float32 [size, size, size].

    Raises:
        InputError: If the Gaussian is too narrow for the grid.
        DataError: If there is no mass, or it does not fit into the box.
    """
    # A narrower one would fall between the voxels, and the mass with it.
    if not sigma_angstrom >= 0.8 * voxel_angstrom:
        raise InputError(
            f"sigma_angstrom is {sigma_angstrom:g}; on voxels of {voxel_angstrom:g} Å give "
            f"{0.8 * voxel_angstrom:g} or more"
        )
    total = float(masses.sum())
    if not len(masses) or not (masses >= 0).all() or not 0 < total < np.inf:
        raise DataError("masses are missing, negative or not finite")
    centred = torch.from_numpy(places_angstrom - masses @ places_angstrom / total)
    steps = (torch.arange(size, dtype=torch.float64) - (size - 1) / 2) * voxel_angstrom
    height = voxel_angstrom / (sigma_angstrom * np.sqrt(2.0 * np.pi))
    density = torch.zeros(size, size * size)
    for start in range(0, len(masses), _CHUNK):
        part = slice(start, start + _CHUNK)
        apart = (steps - centred[part, :, None]) / sigma_angstrom
        z, y, x = (height * torch.exp(-0.5 * apart.square())).float().unbind(dim=1)
        weighted = z * torch.from_numpy(masses[part]).float()[:, None]
        # A Gaussian in space is the product of three along the axes.
        density += weighted.T @ (y[:, :, None] * x[:, None, :]).reshape(len(y), -1)
    inside = float(density.double().sum()) / total
    if not inside >= _LEAST_INSIDE:
        raise DataError(
            f"{1 - inside:.0%} of the mass is outside a box of {size * voxel_angstrom:g} Å"
        )
    return density.reshape(size, size, size)


def resample(
    maps: Tensor, rotations: Tensor, shifts_voxels: Tensor, size: int, zoom: float
) -> Tensor:
    """Turn each map about its centre, shift it, and read it on another grid.

    Args:
        maps: Densities [N, S, S, S].
        rotations: Matrices on the axes in their order [N, 3, 3].
        shifts_voxels: In voxels of the result [N, 3].
        size: Side of the result.
        zoom: Side of a voxel of the result in voxels of the map.

    Returns:
        Densities [N, size, size, size].
    """
    half = (maps.shape[-1] - 1) / 2
    back = (rotations.double().cpu().mT * (zoom / half)).contiguous()
    origin = -(back * shifts_voxels.double().cpu()[:, None, :]).sum(dim=-1)
    back, origin = back.to(maps), origin.to(maps)
    steps = torch.arange(size, device=maps.device, dtype=maps.dtype) - (size - 1) / 2
    # Sums of broadcast terms, not a matrix product: the same to the last bit for any batch.
    terms = back[:, :, :, None] * steps
    places = (
        (origin[:, :, None, None, None] + terms[:, :, 0, :, None, None])
        + terms[:, :, 1, None, :, None]
    ) + terms[:, :, 2, None, None, :]
    grid = places.flip(1).movedim(1, -1)
    return F.grid_sample(maps[:, None], grid, padding_mode="zeros", align_corners=True)[:, 0]

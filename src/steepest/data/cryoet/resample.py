"""Turn, shift and resample density maps: linear interpolation, nothing outside the map."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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

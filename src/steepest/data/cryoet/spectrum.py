"""Effects of the microscope on a spectrum: CTF, missing wedge, low pass.

Spectra are those of ``torch.fft.rfftn`` over (z, y, x): [S, S, S / 2 + 1], with x halved. The beam
runs along z and the sample is tilted about y.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steepest.data.cryoet.settings import Settings


def frequencies(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the frequencies along z, y and x, in waves per volume.

    Returns:
        float64 [S, 1, 1], [1, S, 1] and [1, 1, S / 2 + 1].
    """
    whole = torch.fft.fftfreq(size, d=1.0 / size, dtype=torch.float64)
    half = torch.fft.rfftfreq(size, d=1.0 / size, dtype=torch.float64)
    return whole[:, None, None], whole[None, :, None], half[None, None, :]


def squared_per_angstrom(settings: Settings) -> Tensor:
    """Return the squared length of each frequency, in 1/Å² [S, S, S / 2 + 1]."""
    z, y, x = frequencies(settings.size_voxels)
    box_angstrom = settings.size_voxels * settings.voxel_angstrom
    return (z**2 + y**2 + x**2) / box_angstrom**2


def contrast_transfer(settings: Settings, defocus_um: Tensor) -> Tensor:
    """Return the contrast transfer function with its envelope.

    Args:
        settings: Voltage, aberration, amplitude contrast, envelope.
        defocus_um: One value for each volume [N].

    Returns:
        float64 [N, S, S, S / 2 + 1].
    """
    squared = squared_per_angstrom(settings).to(defocus_um.device)
    wavelength = settings.wavelength_angstrom
    defocus = defocus_um.double()[:, None, None, None] * 1e4
    aberration = settings.aberration_mm * 1e7 * wavelength**3 * squared**2
    phase = 0.5 * math.pi * (aberration - 2.0 * defocus * wavelength * squared)
    envelope = torch.exp(
        -squared / (settings.envelope_nyquist * settings.nyquist_per_angstrom) ** 2
    )
    return torch.sin(phase + math.asin(settings.amplitude_contrast)) * envelope


def wedge(settings: Settings) -> Tensor:
    """Say which frequencies the tilts reach: bool [S, S, S / 2 + 1]."""
    size = settings.size_voxels
    z, _, x = frequencies(size)
    tilt = torch.rad2deg(torch.atan2(z.abs(), x.abs()))
    return (tilt <= settings.max_tilt_degrees + 1e-9).expand(size, size, size // 2 + 1)


def band(settings: Settings) -> Tensor:
    """Say which frequencies a volume keeps: those of the wedge and the low pass, without the mean.

    Returns:
        bool [S, S, S / 2 + 1].
    """
    squared = squared_per_angstrom(settings)
    kept = wedge(settings) & (squared > 0)
    if settings.kept_angstrom:
        kept &= squared <= 1.0 / settings.kept_angstrom**2
    return kept


def occurrences(size: int) -> Tensor:
    """Return how often each value stands in the whole spectrum: 1 or 2 [1, 1, S / 2 + 1]."""
    half = torch.full((1, 1, size // 2 + 1), 2.0, dtype=torch.float64)
    half[..., [0, -1]] = 1.0
    return half

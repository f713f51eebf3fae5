"""Noise of a simulated tilt series, by key, at three meanings of a signal-to-noise ratio.

The noise is made in the spectrum, where it is needed. A counter is scrambled by integer
arithmetic, which is exact everywhere, and turned into normal numbers (G. Box and M. Muller), which
devices round in their own way.

A signal-to-noise ratio has one of three meanings:

``tilt``
    Per image of the tilt series, as microscopists state it: the variance of the projected
    signal, mean over all tilts, to the variance of the white noise in one image. The volume is
    put together from these images.
``white``
    Of the volume: the variance of the signal as it stands in the volume to that of white noise
    over the whole box, of which the missing wedge and the low pass then take their share.
``aitom``
    Of the volume, within the band that is left after wedge and low pass, where half of the noise
    has passed the CTF and half has not. The hardest of the three by far.

A mode is a pair of maps over the spectrum. With the spectrum of the signal after the CTF, but
before wedge and low pass, the noise has the mean square ``sum(weights * |signal|²) / snr * power``
at each frequency.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from steepest.data.cryoet.settings import Settings
from steepest.data.cryoet.spectrum import band, frequencies, occurrences

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
_WORD = (1 << 32) - 1
NoiseMaps = tuple[Tensor, Tensor]
"""Weights of the signal [S, S, S / 2 + 1], power of the noise [..., S, S, S / 2 + 1], float64."""

FOLLOW_TRANSFER = ("aitom",)
"""The modes whose maps change with the contrast transfer function."""


def white_spectrum(keys: Tensor, size: int) -> Tensor:
    """Make spectra of real white noise, of mean square 1 at each frequency.

    Args:
        keys: One for each volume, int64 [N].
        size: Side S of a volume, even.

    Returns:
        complex64 [N, S, S, S / 2 + 1], as ``rfftn`` would give.
    """
    shape = (len(keys), size, size, size // 2 + 1)
    counter = torch.arange(1, math.prod(shape[1:]) + 1, device=keys.device) * _GOLDEN
    bits = _scramble(keys[:, None] + counter)
    upper, lower = ((bits >> 32) & _WORD).float(), (bits & _WORD).float()
    length = torch.sqrt(-torch.log((upper + 0.5) * 2.0**-32))
    angle = lower * (2.0 * math.pi * 2.0**-32)
    pairs = torch.stack([length * torch.cos(angle), length * torch.sin(angle)], dim=-1)
    noise = torch.view_as_complex(pairs).reshape(shape)
    for plane in (0, size // 2):
        noise[..., plane] = _as_of_real(noise[..., plane])
    return noise


def _as_of_real(plane: Tensor) -> Tensor:
    """Give opposite frequencies of a plane [N, S, S] opposite phases; the mean square stays."""
    opposite = plane.flip((1, 2)).roll((1, 1), (1, 2)).conj()
    return (plane + opposite) * math.sqrt(0.5)


def _scramble(x: Tensor) -> Tensor:
    """Scramble 64-bit integers (the finaliser of SplitMix64)."""
    # Shifts of signed numbers copy the sign; the masks cut those copies off.
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def noise_maps(settings: Settings, transfer: Tensor) -> NoiseMaps:
    """Return the maps of the mode that the settings name.

    Args:
        settings: The mode, the tilts, and what the volume keeps.
        transfer: The contrast transfer function, float64 [..., S, S, S / 2 + 1].
    """
    return _MODES[settings.snr_mode](settings, transfer)


def tilt_angles(settings: Settings) -> Tensor:
    """Return the angles of the tilt series, in radians [T]."""
    most = settings.max_tilt_degrees
    angles = torch.linspace(-most, most, settings.tilt_images, dtype=torch.float64)
    return torch.deg2rad(angles)


def slice_weights(settings: Settings) -> Tensor:
    """Return how much of each tilt image goes into each frequency.

    An image of the tilt series is a plane through the spectrum. It counts fully where it hits a
    frequency and not at all one voxel away from it.

    Returns:
        float64 [T, S, 1, S / 2 + 1].
    """
    z, _, x = frequencies(settings.size_voxels)
    angles = tilt_angles(settings)[:, None, None, None]
    return (1.0 - (z * torch.cos(angles) - x * torch.sin(angles)).abs()).clamp(min=0.0)


def _tilt(settings: Settings, transfer: Tensor) -> NoiseMaps:
    size = settings.size_voxels
    slices = slice_weights(settings)
    images = slices.mean(dim=0) * occurrences(size) / size**4
    weights = images.expand(transfer.shape[-3:]).clone()
    weights[0, 0, 0] = 0.0
    total = slices.sum(dim=0)
    # The mean of independent images, each with the weight it has there.
    averaged = slices.square().sum(dim=0) / total.square().clamp(min=1e-12)
    return weights, size**2 * averaged * band(settings)


def _white(settings: Settings, transfer: Tensor) -> NoiseMaps:
    voxels = settings.size_voxels**3
    return _variance_weights(settings), (voxels * band(settings).double()).expand(transfer.shape)


def _aitom(settings: Settings, transfer: Tensor) -> NoiseMaps:
    voxels = settings.size_voxels**3
    counts = occurrences(settings.size_voxels).to(transfer.device)
    kept = band(settings).to(transfer)
    before = kept * transfer.square()
    total = ordered_sum((before * counts).reshape(-1, *kept.shape)).reshape(transfer.shape[:-3])
    shares = before / total[..., None, None, None] + kept / (kept * counts).sum()
    return _variance_weights(settings), voxels**2 * 0.5 * shares


def _variance_weights(settings: Settings) -> Tensor:
    """Return weights that make of a squared spectrum the variance over the volume."""
    return band(settings) * occurrences(settings.size_voxels) / settings.size_voxels**6


_MODES: dict[str, Callable[[Settings, Tensor], NoiseMaps]] = {
    "tilt": _tilt,
    "white": _white,
    "aitom": _aitom,
}


def ordered_sum(values: Tensor) -> Tensor:
    """Sum all but the first axis, in double precision and always in the same order.

    A library's own sum may split its work by batch size and threads, and round differently.

    Returns:
        Sums [N].
    """
    rest = values.reshape(len(values), -1).to(torch.float64)
    while rest.shape[1] > 1:
        half = rest.shape[1] // 2
        folded = rest[:, :half] + rest[:, half : 2 * half]
        rest = folded if rest.shape[1] % 2 == 0 else torch.cat([folded, rest[:, -1:]], dim=1)
    return rest[:, 0]

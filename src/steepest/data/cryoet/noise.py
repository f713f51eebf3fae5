"""White noise by key: each volume's noise depends on its key alone, on every device.

The noise is made in the spectrum, where it is needed. A counter is scrambled by integer
arithmetic, which is exact everywhere, and turned into normal numbers (G. Box and M. Muller), which
devices round in their own way.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
_WORD = (1 << 32) - 1


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

"""A variational autoencoder of images and volumes, of any size from 4 pixels a side on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from steepest.errors import InputError

_FIRST_WIDTH = {2: 128, 3: 64}
"""Channels of the first stage for images and for volumes."""

_MOST = 8
"""A stage has at most so many times the channels of the first."""

_CONV: dict[int, type[nn.Conv2d | nn.Conv3d]] = {2: nn.Conv2d, 3: nn.Conv3d}
_UP: dict[int, type[nn.ConvTranspose2d | nn.ConvTranspose3d]] = {
    2: nn.ConvTranspose2d,
    3: nn.ConvTranspose3d,
}
_NORM: dict[int, type[nn.BatchNorm2d | nn.BatchNorm3d]] = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}

Size = tuple[int, ...]
"""Height and width, or depth, height and width."""


class Encoded(NamedTuple):
    """Outputs of the autoencoder for N images.

    Attributes:
        made: The images again [N, C, ...].
        code: A draw of the code [N, latent].
        mean: The mean of the code [N, latent].
        log_variance: The logarithm of its variance [N, latent].
    """

    made: Tensor
    code: Tensor
    mean: Tensor
    log_variance: Tensor


class ImageVae(nn.Module):
    """Convolutions that halve an image until 2 or 3 pixels a side are left, and back again.

    Four stages for images of 32 x 32, one more for every doubling. The code may be longer than
    what the decoder reads of it.

    Args:
        channels: Of the images.
        size: Of the images; two numbers, or three for volumes.
        latent: Length of the code.
        width: Channels of the first stage; by default 128 for images and 64 for volumes. Each
            stage has twice as many as the one before, up to eight times the first.
        decoded: How much of the code the decoder reads, from its beginning; by default all.

    Raises:
        InputError: If the images are too small.
    """

    def __init__(
        self,
        channels: int,
        size: Sequence[int],
        latent: int = 32,
        *,
        width: int | None = None,
        decoded: int | None = None,
    ) -> None:
        super().__init__()
        sizes = stage_sizes(tuple(size))
        first = _FIRST_WIDTH[len(size)] if width is None else width
        widths = [first * min(2**stage, _MOST) for stage in range(len(sizes) - 1)]
        self._decoded = latent if decoded is None else decoded
        self.encoder = _make_encoder(channels, widths, len(size))
        flat = widths[-1] * _count(sizes[-1])
        self.mean = nn.Linear(flat, latent)
        self.log_variance = nn.Linear(flat, latent)
        self.decoder = _make_decoder(self._decoded, channels, widths, sizes)
        _draw_weights(self.encoder)
        _draw_weights(self.decoder)

    def encode(self, images: Tensor, sizes: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Return the codes' means and log-variances, each [N, latent].

        Args:
            images: [N, C, ...].
            sizes: Of groups that follow each other in the batch and are normalised apart from each
                other in training, as if each were its own batch; by default all is one.
        """
        flat = _run_apart(self.encoder, images, sizes)
        return self.mean(flat), self.log_variance(flat)

    def undecoded(self, code: Tensor) -> Tensor:
        """Return what the decoder does not read of codes [N, latent]."""
        return code[:, self._decoded :]

    def forward(self, images: Tensor, sizes: Sequence[int] = ()) -> Encoded:
        """Encode images [N, C, ...] in groups, as above; draw a code of each and decode it."""
        mean, log_variance = self.encode(images, sizes)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        made = _run_apart(self.decoder, code[:, : self._decoded], sizes)
        return Encoded(made, code, mean, log_variance)


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return each code's divergence from the standard normal distribution [N], in nats."""
    if mean.dtype != torch.float64:
        mean, log_variance = mean.float(), log_variance.float()
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)


def stage_sizes(size: Size) -> list[Size]:
    """Return the sizes from the image to the last map, each half of the one before.

    Raises:
        InputError: If the image has too few pixels, or other dimensions than are known.
    """
    if len(size) not in _CONV or min(size) < 4:
        raise InputError(
            f"an autoencoder takes images [C, H, W] or volumes [C, D, H, W] of at least 4 pixels "
            f"a side, not samples of size {list(size)}: enlarge them, or use 'core-set'"
        )
    sizes = [size]
    while max(sizes[-1]) > 3 and min(sizes[-1]) > 1:
        sizes.append(tuple(side // 2 for side in sizes[-1]))
    return sizes


def split_groups(encoded: Encoded, sizes: Sequence[int]) -> list[Encoded]:
    """Return each group of a batch by itself."""
    parts = (torch.split(tensor, list(sizes)) for tensor in encoded)
    return [Encoded(*part) for part in zip(*parts, strict=True)]


def _run_apart(layers: nn.Sequential, x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Run layers on all groups at once, but normalise each by itself."""
    for layer in layers:
        if sizes and isinstance(layer, nn.BatchNorm2d | nn.BatchNorm3d):
            x = torch.cat([layer(part) for part in torch.split(x, list(sizes))])
        else:
            x = layer(x)
    return x


def _make_encoder(channels: int, widths: Sequence[int], dimensions: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip([channels, *widths], widths, strict=False):
        layers += [
            _CONV[dimensions](before, after, 4, 2, 1, bias=False),
            _NORM[dimensions](after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Flatten())


def _make_decoder(
    latent: int, channels: int, widths: Sequence[int], sizes: Sequence[Size]
) -> nn.Sequential:
    dimensions, start = len(sizes[0]), sizes[-2]
    layers: list[nn.Module] = [
        nn.Linear(latent, widths[-1] * _count(start)),
        nn.Unflatten(1, (widths[-1], *start)),
    ]
    for stage in range(len(sizes) - 2, 0, -1):
        small, large = sizes[stage], sizes[stage - 1]
        # A side that was odd has lost a pixel on the way down.
        lost = tuple(b - 2 * a for a, b in zip(small, large, strict=True))
        up = _UP[dimensions](widths[stage], widths[stage - 1], 4, 2, 1, lost, bias=False)  # type: ignore[arg-type]
        layers += [up, _NORM[dimensions](widths[stage - 1]), nn.ReLU()]
    return nn.Sequential(*layers, _UP[dimensions](widths[0], channels, 1))


def _draw_weights(part: nn.Sequential) -> None:
    """Draw weights for layers with ReLU; those that go up keep the ones they come with."""
    for layer in part:
        if isinstance(layer, nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _count(size: Size) -> int:
    return int(torch.Size(size).numel())

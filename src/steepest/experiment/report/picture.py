"""One sample as a small picture that a page can hold."""

from __future__ import annotations

import base64
import io

import torch
from torch import Tensor

LARGEST_SIDE = 48


def encode_picture(image: Tensor) -> str:
    """Return a sample as the data URI of a PNG, made smaller if it is large.

    Of a volume the central slice is shown, of many channels the first three, and of two the
    first. Numbers that are not bytes have no scale of their own: each picture then reaches from
    its least value in black to its greatest in white.

    Args:
        image: An image [C, H, W] or a volume [C, D, H, W].
    """
    from PIL import Image

    flat = image[:, image.shape[1] // 2] if image.ndim == 4 else image
    shown = flat[:3] if len(flat) >= 3 else flat[:1]
    channels = _to_bytes(shown).permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(channels[..., 0] if channels.shape[-1] == 1 else channels)
    picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _to_bytes(values: Tensor) -> Tensor:
    """Return values stretched over the bytes; bytes stay as they are."""
    if values.dtype == torch.uint8:
        return values
    exact = values.double()
    finite = exact[exact.isfinite()]
    if not len(finite):
        return torch.zeros(values.shape, dtype=torch.uint8)
    low, high = finite.min(), finite.max()
    span = high - low if high > low else torch.ones_like(high)
    known = exact.nan_to_num(nan=float(low), posinf=float(high), neginf=float(low))
    return (255 * (known - low) / span).round().to(torch.uint8)

"""Arrays of images and labels as anybody may have them, brought into the forms used here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.data.sealed import check_kind
from steepest.errors import DataError, InputError, NonFiniteError, UnknownNameError

LAYOUTS = ("auto", "channels-first", "channels-last")
"""Position of the channel axis."""

Array = npt.NDArray[Any] | Tensor

_MOST_CHANNELS = 4
_CHECKED_AT_ONCE = 256
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def find_layout(images: Array, layout: str) -> str:
    """Say where the channels of images are.

    ``"auto"`` takes the axis after N or the last one, whichever has 1 to 4 entries; where both or
    neither have, it cannot be told. [N, H, W] is grey in any layout.

    Raises:
        InputError: If it cannot be told.
        UnknownNameError: If there is no such layout.
    """
    if layout not in LAYOUTS:
        raise UnknownNameError("layout", layout, LAYOUTS)
    shape = images.shape
    if layout != "auto" or len(shape) < 4:
        return layout
    first, last = shape[1] <= _MOST_CHANNELS, shape[-1] <= _MOST_CHANNELS
    if first == last:
        raise InputError(
            f"images are {list(shape)}, and it cannot be told which axis holds the channels; "
            "set layout to 'channels-first' or 'channels-last'"
        )
    return "channels-first" if first else "channels-last"


def to_images(images: Array, layout: str) -> Tensor:
    """Bring images, volumes or features into the form [N, C, ...], as uint8 or float32.

    Arrays that have that form already are not copied, so that one mapped from disk stays there.

    Args:
        images: [N, H, W], or [N, ...] with channels where ``layout`` says; or features [N, C],
            which are floats.
        layout: As ``find_layout`` returns it.

    Raises:
        DataError: If they are neither bytes nor floats, or have another number of axes.
        NonFiniteError: If one is not finite.
    """
    tensor = _to_tensor(images, "images")
    if not 2 <= tensor.ndim <= 5:
        raise DataError(
            f"images are {list(tensor.shape)}; give [N, H, W] or one axis more, or features [N, D]"
        )
    if tensor.is_floating_point():
        tensor = tensor.float()
    elif tensor.ndim == 2:
        raise DataError(f"features [N, D] are {tensor.dtype}; give floats")
    elif tensor.dtype != torch.uint8:
        kind = str(images.dtype).removeprefix("torch.")
        raise DataError(
            f"images are {kind}; give bytes 0..255 (uint8) or floats, such as 0..1 by images / m "
            "with m the highest value there can be"
        )
    if tensor.ndim == 3:
        tensor = tensor[:, None]
    elif layout == "channels-last" and tensor.ndim > 3:
        tensor = tensor.movedim(-1, 1)
    if tensor.is_floating_point():
        for part in torch.split(tensor, _CHECKED_AT_ONCE):
            if not bool(torch.isfinite(part).all()):
                kind = "features" if tensor.ndim == 2 else "images"
                raise NonFiniteError(
                    f"{kind} hold NaN or infinity (as numbers of single precision); remove "
                    "or replace them"
                )
    return tensor.contiguous()


def to_labels(labels: Array) -> Tensor:
    """Bring labels into the form of their kind.

    Args:
        labels: Whole numbers [N] or, for label maps with 255 where no class is known, [N, H, W];
            or bool [N, K] for several classes each.

    Returns:
        int64 [N], uint8 [N, H, W] or bool [N, K].

    Raises:
        DataError: If they are of no such kind.
    """
    tensor = _to_tensor(labels, "labels")
    if tensor.dtype in _WHOLE and tensor.ndim == 1:
        tensor = tensor.long()
    elif tensor.dtype in _WHOLE and tensor.ndim > 2:
        if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) <= 255:
            raise DataError("label maps must hold 0..255, with 255 where no class is known")
        tensor = tensor.to(torch.uint8)
    elif tensor.ndim == 2 and tensor.dtype != torch.bool and tensor.shape[1] > 1:
        _refuse_numbers(tensor)
    check_kind(tensor)
    return tensor


def _refuse_numbers(rows: Tensor) -> None:
    """Say what to do with numbers [N, K] where yes and no belong.

    Raises:
        DataError: If they are 0, 1 and what may stand for a label that is not known.
    """
    unknown = ~((rows == 0) | (rows == 1))
    if not bool(unknown.any()):
        raise DataError(f"labels [N, {rows.shape[1]}] are the numbers 0 and 1: give labels == 1")
    if bool(((rows == -1) | rows.isnan() | ~unknown).all()):
        row, column = unknown.nonzero()[0].tolist()
        raise DataError(
            f"label {column} of sample {row} is {rows[row, column].item()}: whether a class is "
            "there must be known of every class, so leave such samples out"
        )


def measure_channels(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation per channel, of bytes on the 0..1 scale.

    A channel that is the same everywhere gets the standard deviation 1.

    Args:
        images: uint8 or float32 [N, C, ...].
    """
    most = 255.0 if images.dtype == torch.uint8 else 1.0
    axes = [axis for axis in range(images.ndim) if axis != 1]
    values = max(1, images.numel() // max(1, images.shape[1]))
    total, squares = (torch.zeros(images.shape[1], dtype=torch.float64) for _ in range(2))
    for part in torch.split(images, _CHECKED_AT_ONCE):
        total += part.double().sum(axes)
    mean = total / values
    shaped = mean.reshape(1, -1, *[1] * (images.ndim - 2))
    for part in torch.split(images, _CHECKED_AT_ONCE):
        squares += (part.double() - shaped).square().sum(axes)
    std = (squares / values).sqrt()
    # A spread of rounding errors alone would blow them up to the size of a signal.
    std = torch.where(std > 1e-7 * mean.abs(), std / most, torch.ones_like(std))
    return tuple((mean / most).tolist()), tuple(std.tolist())


def _to_tensor(values: Array, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    array = np.asarray(values)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} hold {array.dtype}; give numbers")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # Nothing here writes to images; an array mapped from disk may well be read-only.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)

"""Masks as Label Studio's brush stores them: run lengths in a stream of bits.

The stream holds the bytes of an RGBA picture: their number (32 bits), the bits per word less one
(5), four sizes of counters less one (4 each), and then blocks. A block is one bit that says
whether a single word is repeated, two bits that choose the counter's size, the counter less one,
and the word, or as many words as were counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError

Mask = npt.NDArray[np.bool_]

_WORD_BITS = 8
_COUNTER_BITS = (3, 4, 8, 16)
_CHANNELS = 4


def decode_brush(stream: Sequence[int], height: int, width: int) -> Mask:
    """Return the pixels that were painted [H, W].

    Raises:
        InputError: If the stream is damaged, or of a picture of another size.
    """
    try:
        bits = _Bits(bytes(stream))
    except (TypeError, ValueError):
        raise InputError("a brush mask is no list of bytes") from None
    total, word = bits.take(32), bits.take(5) + 1
    if total != height * width * _CHANNELS or word != _WORD_BITS:
        raise InputError(f"a brush mask holds {total} values, not those of {width}x{height} pixels")
    sizes = [bits.take(4) + 1 for _ in range(4)]
    values = np.zeros(total, dtype=np.uint8)
    done = 0
    while done < total:
        repeated = bits.take(1)
        count = bits.take(sizes[bits.take(2)]) + 1
        if done + count > total:
            raise InputError("a brush mask holds more values than it says")
        if repeated:
            values[done : done + count] = bits.take(_WORD_BITS)
        else:
            values[done : done + count] = bits.take_bytes(count)
        done += count
    # People paint with a soft edge: half and more of the colour counts as painted.
    mask: Mask = values.reshape(height, width, _CHANNELS)[..., 3] >= 128
    return mask


def encode_brush(mask: Mask) -> list[int]:
    """Return the stream of a mask [H, W], for Label Studio to show."""
    flat = np.ascontiguousarray(mask).reshape(-1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    starts = np.concatenate([[0], edges]).astype(np.int64)
    lengths = np.diff(np.concatenate([starts, [flat.size]])) * _CHANNELS
    parts = [f"{flat.size * _CHANNELS:032b}", f"{_WORD_BITS - 1:05b}"]
    parts += [f"{size - 1:04b}" for size in _COUNTER_BITS]
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        word = "11111111" if flat[start] else "00000000"
        left = length
        while left:
            index, size, count = _counter(left)
            parts.append(f"1{index:02b}{count - 1:0{size}b}{word}")
            left -= count
    text = "".join(parts)
    text += "0" * (-len(text) % 8)
    return [int(text[i : i + 8], 2) for i in range(0, len(text), 8)]


def _counter(length: int) -> tuple[int, int, int]:
    """Return which counter to use for a run, its bits, and how much of the run it counts."""
    for index, size in enumerate(_COUNTER_BITS):
        if length <= 1 << size:
            return index, size, length
    return len(_COUNTER_BITS) - 1, _COUNTER_BITS[-1], 1 << _COUNTER_BITS[-1]


class _Bits:
    """Reads numbers of any number of bits, the highest first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
        self._place = 0

    def take(self, count: int) -> int:
        end = self._place + count
        if end > len(self._bits):
            raise InputError("a brush mask ends too early")
        first, last = self._place // 8, (end + 7) // 8
        chunk = int.from_bytes(self._data[first:last], "big")
        self._place = end
        return (chunk >> (8 * last - end)) & ((1 << count) - 1)

    def take_bytes(self, count: int) -> npt.NDArray[np.uint8]:
        end = self._place + _WORD_BITS * count
        if end > len(self._bits):
            raise InputError("a brush mask ends too early")
        taken = np.packbits(self._bits[self._place : end])
        self._place = end
        return taken

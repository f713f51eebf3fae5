"""Arrays for worker processes, packed into one block of shared memory.

Arrays and tensors are read where they lie, so that ten workers need no ten copies of them.
"""

from __future__ import annotations

import io
import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from steepest.errors import DataError, first_line

_ALIGNMENT_BYTES = 64
_KINDS_OF_NUMPY = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
    }
)


@dataclass(frozen=True, eq=False)
class Parcel:
    """An object, ready to be sent.

    Attributes:
        block: The pickle, and the arrays beside it: shared bytes.
        spans: Where each of them starts and stops.
        needs_main: Whether it holds something that the program's main file defines.
    """

    block: Tensor
    spans: tuple[tuple[int, int], ...]
    needs_main: bool

    def open(self) -> Any:  # noqa: ANN401 - whatever was packed
        """Return the object; its arrays stay in the shared block."""
        memory = self.block.numpy().data
        parts = [memory[start:stop] for start, stop in self.spans]
        return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - packed by this program


def pack(item: object) -> Parcel:
    """Make an object ready to be sent to worker processes.

    Raises:
        DataError: If it cannot be sent.
    """
    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    pickler = _Packer(file, buffers)
    try:
        pickler.dump(item)
    except Exception as error:  # whatever the parts of a user's own data set raise
        reason = first_line(error)
        raise DataError(
            f"the data set cannot be sent to worker processes ({reason}): set workers = 0"
        ) from error
    parts = [file.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = [math.ceil(part.nbytes / _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for part in parts]
    starts = list(itertools.accumulate(sizes, initial=0))
    block = share([starts.pop()], torch.uint8)
    spans = tuple((start, start + part.nbytes) for start, part in zip(starts, parts, strict=True))
    memory = block.numpy().data
    for (start, stop), part in zip(spans, parts, strict=True):
        memory[start:stop] = part
    return Parcel(block, spans, pickler.needs_main)


def can_be_sent(item: object) -> bool:
    """Say whether an object can be sent to processes that do not run the main file again."""
    pickler = _Packer(_Nowhere(), [])
    try:
        pickler.dump(item)
    except Exception:  # noqa: BLE001 - whatever the parts of a user's own data set raise
        return False
    return not pickler.needs_main


def share(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return memory that other processes can be given.

    Raises:
        DataError: If there is not enough of it.
    """
    try:
        memory = torch.empty(tuple(shape), dtype=dtype)
        memory.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        megabytes = math.prod(shape) * dtype.itemsize / 1e6
        raise DataError(
            f"no {megabytes:.0f} MB of shared memory for worker processes: use fewer workers, or "
            "give the container more (docker run --shm-size)"
        ) from error
    return memory


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.needs_main = False

    def reducer_override(self, item: Any) -> Any:  # noqa: ANN401 - as in the base class
        # In a worker process, the program's main file goes by the second name.
        if getattr(item, "__module__", None) in ("__main__", "__mp_main__"):
            self.needs_main = True
        if type(item) is Tensor and _is_plain(item):
            return torch.from_numpy, (item.numpy(),)
        return NotImplemented


class _Nowhere(io.BytesIO):
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any kind of buffer
        return len(data)


def _is_plain(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.dtype in _KINDS_OF_NUMPY
        and not tensor.requires_grad
        and not tensor.is_neg()
    )

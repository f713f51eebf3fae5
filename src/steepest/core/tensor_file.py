"""Tensors on disk with a digest over all of them, for files that save time and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.errors import DataError, in_one_line

_ABOUT = "steepest"
_DIGEST = "sha256"
_HEADER_LENGTH_BYTES = 8
_UNREADABLE = (
    OSError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    safetensors.SafetensorError,
)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors to a safetensors file, atomically.

    Args:
        path: The file.
        tensors: By name, on any device.
        about: Their metadata, as plain tables.

    Raises:
        InputError: If the file cannot be written.
    """
    # Clones, because the format refuses tensors that share memory, as tied weights do.
    plain = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    said = json.dumps(about)
    metadata = {_ABOUT: said, _DIGEST: _digest(plain, said)}
    write_atomically(path, safetensors.torch.save(plain, metadata=metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any] | None:
    """Read a file written by ``write_tensors``, all of it or nothing.

    Returns:
        The tensors by name, and their metadata; None if there is no file.

    Raises:
        DataError: If anything in the file is not as it was written.
    """
    try:
        # Read and not mapped: a mapped file that is cut short ends the process.
        data = path.read_bytes()
        start = _HEADER_LENGTH_BYTES
        length = int.from_bytes(data[:start], "little")
        metadata = parse_json(data[start : start + length])["__metadata__"]
        tensors = safetensors.torch.load(data)
        said = metadata[_ABOUT]
        if metadata[_DIGEST] != _digest(tensors, said):
            raise ValueError("its content has changed since it was written")
        return tensors, parse_json(said)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except _UNREADABLE as error:
        raise DataError(f"{path} is damaged ({in_one_line(error)})") from error


def _digest(tensors: Mapping[str, Tensor], said: str) -> str:
    """Return a digest of all names, shapes, types and bytes, and of the metadata."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        head = json.dumps([name, str(value.dtype), list(value.shape)]).encode()
        digest.update(len(head).to_bytes(8, "little"))
        digest.update(head)
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    digest.update(said.encode())
    return digest.hexdigest()

"""Conditions and fingerprints that keep parts of different passes apart."""

from __future__ import annotations

import hashlib
import json
import pickle
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.seeds import SampleId
from steepest.modules.batches import tensors_of
from steepest.modules.fingerprint import fingerprint
from steepest.selecting.samples import Samples
from steepest.strategies.view import Lens

_LOOKED_AT = 8
"""The number of samples, spread evenly, that are read for a pool's fingerprint."""

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a part of a pool was scored.

    Attributes:
        batch_size: Samples per batch.
        precision: Of gradients.
        device: The kind of device, such as ``"cpu AVX2"`` or ``"NVIDIA H200"``.
        torch: The version of PyTorch.
        pool: Fingerprint of the pool: all ids, and the contents of a few samples.
    """

    batch_size: int
    precision: str
    device: str
    torch: str
    pool: str

    def difference(self, other: Conditions) -> tuple[str, object, object] | None:
        """Return the first difference as a pair of values; None if there is none."""
        for name, here in vars(self).items():
            there = getattr(other, name)
            if here != there:
                return name.replace("_", " "), here, there
        return None


def conditions_of(lens: Lens, precision: str, samples: Samples) -> Conditions:
    """Return the conditions under which samples are looked at here.

    Args:
        lens: How they are looked at.
        precision: Of gradients.
        samples: All of the pool.
    """
    plain = lens.device.type == "cpu" and precision == "tf32"
    return Conditions(
        batch_size=lens.batch_size,
        precision="fp32" if plain else precision,
        device=device_kind(lens.device),
        torch=torch.__version__,
        pool=pool_fingerprint(samples),
    )


def device_kind(device: torch.device) -> str:
    """Return a key that is equal for devices with the same rounding."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"


def pool_fingerprint(samples: Samples) -> str:
    """Return 16 hex digits that change with any id, and with how samples are read.

    A pool may be too large to be read twice: the contents are those of a few samples.
    """
    digest = hashlib.sha256()
    for start in range(0, len(samples), _CHUNK):
        digest.update(_bytes_of(samples.ids[start : start + _CHUNK]))
    digest.update(contents_fingerprint(samples).encode())
    return digest.hexdigest()[:16]


def contents_fingerprint(samples: Samples) -> str:
    """Return 16 hex digits that change with the contents of a few samples."""
    digest = hashlib.sha256(str(len(samples)).encode())
    some = sorted({int(p) for p in np.linspace(0, len(samples) - 1, _LOOKED_AT)})
    for position in some:  # One by one, as they may be of several shapes.
        for inputs in samples.batches([position], 1):
            for value in tensors_of(inputs):
                digest.update(f"{value.dtype} {list(value.shape)}".encode())
                digest.update(value.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _bytes_of(ids: Sequence[SampleId]) -> bytes:
    plain = [str(ids)] if isinstance(ids, range) else list(ids)
    return json.dumps(plain).encode()


def value_digest(value: object) -> str:
    """Return 16 hex digits that change with any number in a value.

    A value that cannot be pickled equals no other.
    """
    digest = hashlib.sha256()

    class Feed:
        def write(self, data: Any) -> int:  # noqa: ANN401 - any kind of buffer
            digest.update(data)
            return len(data)

    try:
        _Pickler(Feed(), protocol=5).dump(value)
    except Exception:  # noqa: BLE001 - whatever the parts of a strategy of the user's own raise
        return secrets.token_hex(8)
    return digest.hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Pickles tensors by their values, as their default pickle refers to memory."""

    def reducer_override(self, item: Any) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(item, nn.Module):
            return str, (fingerprint(item),)
        if isinstance(item, Tensor):
            there = item.detach().cpu().contiguous()
            data = there.view(-1).view(torch.uint8).numpy().tobytes()
            return str, (f"{there.dtype} {list(there.shape)}", data)
        return NotImplemented

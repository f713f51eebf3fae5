"""A short name for a model's exact weights."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn


def fingerprint(model: nn.Module) -> str:
    """Return 16 hex digits that change with any weight, buffer, shape, name or class.

    Equal weights have equal fingerprints on every device and in every memory format.
    """
    digest = hashlib.sha256()
    _feed(digest, f"{type(model).__module__}.{type(model).__qualname__}".encode())
    for name, value in sorted(model.state_dict().items()):
        _feed(digest, name.encode())
        if isinstance(value, Tensor):
            _feed(digest, f"{value.dtype} {list(value.shape)}".encode())
            _feed(digest, _read_bytes(value))
        else:
            _feed(digest, repr(value).encode())
    return digest.hexdigest()[:16]


def _feed(digest: hashlib._Hash, part: bytes) -> None:
    # With its length first, no two different lists of parts give the same bytes.
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def _read_bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()

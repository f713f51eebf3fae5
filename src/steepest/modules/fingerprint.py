"""A short name for a model's exact weights and make."""

from __future__ import annotations

import hashlib
import re

import torch
from torch import Tensor, nn

from steepest.modules.lazy import check_made

_PLACE = re.compile(r" at 0x[0-9a-fA-F]+|, device='[^']*'")
"""Memory addresses and devices in a repr, which differ between processes."""

_PLAIN = (bool, int, float, str, type(None))


def fingerprint(model: nn.Module) -> str:
    """Return 16 hex digits that change with any weight, buffer, shape, name or layer.

    A layer is its class and what it says of itself, such as a stride or a dropout rate; what
    ``forward`` does with the layers is known by the model's class alone. Equal models have equal
    fingerprints on every device, in every memory format, and in training or not.

    Raises:
        ModelError: If lazy layers have no weights yet.
    """
    check_made(model)
    digest = hashlib.sha256()
    for path, module in model.named_modules(remove_duplicate=False):
        _feed(digest, f"layer {path}: {_describe(module)}".encode())
    for name, value in sorted(model.state_dict().items()):
        _feed(digest, name.encode())
        if isinstance(value, Tensor):
            _feed(digest, f"{value.dtype} {list(value.shape)}".encode())
            _feed(digest, _read_bytes(value))
        else:
            _feed(digest, repr(value).encode())
    return digest.hexdigest()[:16]


def _describe(module: nn.Module) -> str:
    kind = type(module)
    said = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(module, nn.ParameterList | nn.ParameterDict):
        return said  # They say their device, and hold nothing but weights.
    said += f"({_PLACE.sub('', module.extra_repr())})"
    if kind.__module__.startswith("torch.nn.modules."):
        said += f" {_constants(module)}"
    return said


def _constants(module: nn.Module) -> list[tuple[str, object]]:
    """Return the arguments a torch layer was built with, such as attention heads.

    Attributes of other classes may be counters, so these have to say themselves what matters.
    """
    kept = sorted((name, value) for name, value in vars(module).items() if name[0] != "_")
    return [(n, v) for n, v in kept if isinstance(v, _PLAIN) and n != "training"]


def _feed(digest: hashlib._Hash, part: bytes) -> None:
    # With its length first, no two different lists of parts give the same bytes.
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def _read_bytes(value: Tensor) -> bytes:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()

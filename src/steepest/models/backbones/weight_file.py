"""A backbone's weights from a file of one's own."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from steepest.errors import InputError
from steepest.modules.weights import WEIGHT_SUFFIXES, read_state, rename_for, unwrap_names

_COUNTER = "num_batches_tracked"
SEPARATOR = "@"
"""Stands between a net's name and a file of its weights."""


def split_file(name: str) -> tuple[str, Path | None]:
    """Return the name of a net and the file of its weights, if one is given.

    ``timm:resnet18@mine.safetensors`` has both, and ``mine.safetensors`` a file alone.
    """
    if not name.lower().endswith(WEIGHT_SUFFIXES):
        return name, None
    net, _, file = name.rpartition(SEPARATOR)
    return net, Path(file).expanduser()


def load_own_weights(model: nn.Module, path: Path, name: str) -> None:
    """Load a file into a net without its head; what the file says of a head is passed over.

    Raises:
        InputError: If the file cannot be read, or is of another net.
    """
    found = rename_for(model, unwrap_names(read_state(path)))
    wanted = model.state_dict()
    missing = [key for key in wanted if key not in found and not key.endswith(_COUNTER)]
    odd = [key for key in wanted if key in found and found[key].shape != wanted[key].shape]
    if missing or odd:
        first = (missing or odd)[0]
        what = "has no" if missing else "has another shape of"
        raise InputError(
            f"{path} is not of the net {name!r}: it {what} {first}; name its net, as in "
            f"timm:resnet50{SEPARATOR}{path.name}"
        )
    model.load_state_dict({key: found[key] for key in wanted if key in found}, strict=False)

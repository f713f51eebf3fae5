"""Finding a backbone by the name that users type, or in their own code."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from torch import nn

from steepest.core.own_code import current_directory_importable, import_own
from steepest.core.wording import nearest_names
from steepest.errors import InputError, UnknownNameError, in_one_line
from steepest.models.backbones.base import Backbone, Kind, load_own_weights, split_file
from steepest.models.backbones.embedded import NAME as EMBEDDED
from steepest.models.backbones.embedded import load_embedded
from steepest.models.backbones.hugging_face import (
    EMBEDDED_TEXT,
    load_embedded_text,
    load_hugging_face,
    load_sentence_transformer,
)
from steepest.models.backbones.libraries import load_open_clip, load_timm, load_torchvision

DEFAULT = EMBEDDED
"""Default backbone for images."""

DEFAULT_TEXT = EMBEDDED_TEXT
"""Default backbone for text."""

_PLAIN: Mapping[str, Callable[[], Backbone]] = MappingProxyType(
    {EMBEDDED: load_embedded, EMBEDDED_TEXT: load_embedded_text}
)
_VISION: Mapping[str, Callable[[str, str, Path | None], Backbone]] = MappingProxyType(
    {"timm": load_timm, "torchvision": load_torchvision, "open-clip": load_open_clip}
)
_LIBRARIES = (*_VISION, "hf", "sentence-transformers")
_OWN_FORM = "package.module:function"
_FORMS = (*_PLAIN, *(f"{name}:NAME" for name in _LIBRARIES), _OWN_FORM)


def find_backbone(name: str = DEFAULT, kind: Kind | None = None) -> Backbone:
    """Return a backbone with its weights and its preprocessing.

    A library is imported when one of its nets is named, and not before. It may fetch weights that
    are not on this machine; the embedded nets never do.

    Args:
        name: ``efficientnet-lite0``; ``all-minilm-l6-v2`` for text; ``timm:NAME``,
            ``torchvision:NAME``, ``open-clip:NAME/TAG``, ``hf:ORG/NAME`` or
            ``sentence-transformers:NAME``; a file of weights, by itself or behind ``NAME@``; or
            ``package.module:function`` for one of the user's own.
        kind: The kind of its inputs, for nets of images and text; images by default.

    Raises:
        UnknownNameError: If the name is unknown; with the nearest.
        InputError: If what it needs is not installed, or cannot be used.
    """
    found = _find(name, kind)
    if kind is not None and found.kind != kind:
        raise InputError(f"backbone {name!r} reads {found.kind}, not {kind}")
    return found


def names_code(name: str) -> bool:
    """Decide whether a name stands for code of somebody's own, not for a net of a library."""
    library, colon, _ = split_file(name)[0].partition(":")
    return bool(colon) and library not in _LIBRARIES


def _find(name: str, kind: Kind | None) -> Backbone:
    net, file = split_file(name)
    if file is not None and net in ("", EMBEDDED):
        return _with_weights(load_embedded(weights=False), file, name)
    if net in _PLAIN and file is None:
        return _PLAIN[net]()
    library, colon, wanted = net.partition(":")
    if colon and library in _VISION:
        return _VISION[library](name, wanted, file)
    if file is not None:
        raise InputError(
            f"backbone {name!r}: a file of weights is for {EMBEDDED}@FILE or {', '.join(_VISION)}"
        )
    if library == "hf" and colon:
        return load_hugging_face(name, wanted, kind)
    if library == "sentence-transformers" and colon:
        return load_sentence_transformer(name, wanted)
    if colon:
        if nearest_names(library, _LIBRARIES) and not _is_importable(library):
            raise UnknownNameError("library of backbones", library, _LIBRARIES)
        return _load_own(name)
    raise UnknownNameError("backbone", name, _FORMS)


def _with_weights(made: Backbone, file: Path, name: str) -> Backbone:
    if not file.is_file():
        raise InputError(f"backbone {name!r}: there is no file {file}")
    load_own_weights(made.model, file, EMBEDDED)
    return Backbone(
        name, made.model, made.prepare, made.preprocessing, needed_side=made.needed_side
    )


def _is_importable(module: str) -> bool:
    with current_directory_importable():
        try:
            return find_spec(module.partition(".")[0]) is not None
        except (ImportError, ValueError):
            return False


def _load_own(name: str) -> Backbone:
    """Return the result of a user's function: a net and its preprocessing.

    The function takes no arguments and returns ``(model, prepare)``: ``prepare`` turns an RGB
    image of Pillow into a tensor, and the model turns a batch of those into features [N, D].

    Args:
        name: ``package.module:function``.

    Raises:
        InputError: If it cannot be imported or called, or returns something else.
    """
    made = import_own("backbone", name, _OWN_FORM)
    if isinstance(made, Backbone):
        return made
    if not callable(made) or isinstance(made, nn.Module):
        raise InputError(f"backbone {name!r}: {_explain(name, made)}")
    try:
        with current_directory_importable():
            found = made()
    except Exception as error:
        raise InputError(f"backbone {name!r} cannot be made: {in_one_line(error)}") from error
    if isinstance(found, Backbone):
        return found
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], nn.Module):
        raise InputError(f"backbone {name!r}: {_explain(name, found)}")
    model, prepare = found
    if not callable(prepare):
        raise InputError(f"backbone {name!r}: {_explain(name, found)}")
    described = f"{name} {prepare!r} {_digest_source(name)}"
    return Backbone(name, model.eval(), prepare, described)


def _explain(name: str, found: object) -> str:
    module, _, attribute = name.partition(":")
    if found is None:
        return f"{module} has no function {attribute!r}, or it returns nothing"
    return (
        f"{attribute} gives a {type(found).__name__}: make it a function that returns "
        "(model, prepare), where prepare turns an image of Pillow into the tensor that the model "
        "was trained on"
    )


def _digest_source(name: str) -> str:
    """Return a digest of the file that the function is in: its code decides the features."""
    module = sys.modules.get(name.partition(":")[0])
    try:
        file = None if module is None else inspect.getsourcefile(module)
        return hashlib.blake2b(Path(file or "").read_bytes(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""

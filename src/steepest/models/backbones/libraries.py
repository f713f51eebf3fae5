"""Nets of timm, torchvision and open-clip, with the preprocessing that these configure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.wording import nearest_names
from steepest.errors import InputError, SteepestError, UnknownNameError, in_one_line
from steepest.models.backbones.base import Backbone, load_own_weights, missing_library
from steepest.models.backbones.photo import LibraryPhoto
from steepest.modules.head import find_penultimate

_NAMED = 8


def load_timm(name: str, net: str, file: Path | None) -> Backbone:
    """Return a net of timm without its classifier.

    Args:
        name: As the user types it.
        net: timm's name, such as ``vit_small_patch16_224.dino``.
        file: Its weights; None takes those that timm knows of.
    """
    timm = import_library(name, "timm", "pip install timm")
    base = net.partition(".")[0]
    if ":" not in net and not timm.is_model(base):
        raise unknown_net("timm model", net, timm.list_models())
    with loading(name):
        model = timm.create_model(net, pretrained=file is None, num_classes=0)
        config = timm.data.resolve_model_data_config(model)
    if file is not None:
        load_own_weights(model, file, name)
    _, height, width = config["input_size"]
    side = max(height, width)
    fit = {"squash": "squash", "border": "border"}.get(str(config.get("crop_mode")), "crop")
    recipe = LibraryPhoto(
        side,
        math.floor(side / float(config.get("crop_pct") or 1.0)),
        tuple(config["mean"]),
        tuple(config["std"]),
        str(config["interpolation"]),
        fit,  # type: ignore[arg-type]
    )
    return Backbone(name, model.eval(), recipe, repr(recipe), needed_side=2 * recipe.resized)


def load_torchvision(name: str, net: str, file: Path | None) -> Backbone:
    """Return a net of torchvision without its classifier.

    Args:
        name: As the user types it.
        net: ``resnet50``, or ``resnet50/IMAGENET1K_V1`` for other weights than the default ones.
        file: Its weights; None takes torchvision's.
    """
    library = import_library(name, "torchvision.models", "pip install torchvision")
    net, _, wanted = net.partition("/")
    if net not in library.list_models():
        raise unknown_net("torchvision model", net, library.list_models())
    known = library.get_model_weights(net)
    if wanted and wanted not in known.__members__:
        raise unknown_net(f"weights of {net}", wanted, known.__members__)
    chosen = known[wanted] if wanted else known.DEFAULT
    with loading(name):
        model = library.get_model(net, weights=chosen if file is None else None).eval()
        prepare = chosen.transforms()
    with torch.no_grad():
        image = _blank_image(prepare)
    model.set_submodule(find_penultimate(model, torch.stack([image, image])), nn.Identity())
    if file is not None:
        load_own_weights(model, file, name)
    return Backbone(name, model.eval(), prepare, f"{chosen} {prepare!r}")


def _blank_image(prepare: Any) -> Tensor:  # noqa: ANN401
    from PIL import Image

    made: Tensor = prepare(Image.new("RGB", (64, 64)))
    return made


def load_open_clip(name: str, net: str, file: Path | None) -> Backbone:
    """Return the image encoder of a net of open-clip.

    Args:
        name: As the user types it.
        net: ``ViT-B-32/laion2b_s34b_b79k``: a model and which weights of it.
        file: Its weights; None takes those that are named.
    """
    library = import_library(name, "open_clip", "pip install open_clip_torch")
    net, _, tag = net.partition("/")
    if not net.startswith("hf-hub:"):
        if net not in library.list_models():
            raise unknown_net("open-clip model", net, library.list_models())
        tags = list(library.list_pretrained_tags_by_model(net))
        if file is None and tag not in tags:
            raise unknown_net(f"weights of {net}", tag, tags)
    with loading(name):
        model = library.create_model(net, pretrained=tag or None if file is None else None)
        config: Mapping[str, Any] = library.get_model_preprocess_cfg(model)
    if file is not None:
        load_own_weights(model, file, name)
    size = config["size"]
    side = int(size if isinstance(size, int) else max(size))
    fit = {"squash": "squash", "longest": "border"}.get(str(config.get("resize_mode")), "crop")
    recipe = LibraryPhoto(
        side,
        side,
        tuple(config["mean"]),
        tuple(config["std"]),
        str(config.get("interpolation") or "bicubic"),
        fit,  # type: ignore[arg-type]
    )
    return Backbone(
        name, _ImageEncoder(model).eval(), recipe, repr(recipe), needed_side=2 * recipe.resized
    )


class _ImageEncoder(nn.Module):
    """Features [N, D] by a model's method for images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.model.encode_image(x)  # type: ignore[operator]
        return features


def import_library(name: str, module: str, command: str) -> Any:  # noqa: ANN401
    """Import the libraries of a backbone.

    Args:
        name: Of the backbone.
        module: Of the library.
        command: Installs it.

    Raises:
        InputError: If it is not there, or cannot be imported.
    """
    library = module.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ModuleNotFoundError as error:
        lacking = (error.name or library).partition(".")[0]
        if lacking == library:
            raise missing_library(name, library, command) from error
        raise InputError(
            f"backbone {name!r} needs {library}, and that needs {lacking}, which is not "
            f"installed: run pip install {lacking}"
        ) from error
    except Exception as error:
        raise InputError(
            f"backbone {name!r} needs {library}, which cannot be imported: {in_one_line(error)}"
        ) from error


def unknown_net(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error of a name that a library does not know, with the nearest that it does."""
    names = list(known)
    near = nearest_names(name, names) or sorted(names)
    return UnknownNameError(kind, name, near[:_NAMED])


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Turn errors of libraries into one line, and hide their warnings.

    Raises:
        InputError: If a net cannot be made or its weights cannot be had.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SteepestError:
        raise
    except Exception as error:
        raise InputError(
            f"backbone {name!r} cannot be loaded ({in_one_line(error)}): its weights have to be "
            "on this machine, or a network to fetch them once"
        ) from error

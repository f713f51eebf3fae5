"""A trained classifier as one file, and images as its predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.core.tables import from_table
from steepest.data.image_decoding import read_picture
from steepest.errors import InputError, first_line
from steepest.labelling.project.decoding import read_square
from steepest.labelling.project.learning import Learnt
from steepest.labelling.project.settings import Settings
from steepest.models import build
from steepest.models.backbones import Backbone, find_backbone, names_code
from steepest.modules.lazy import check_made
from steepest.training.augment import normalise
from steepest.training.probes import Probe

_KEY = "steepest"
_FORMAT = 1
_BATCH = 32
_MOST_CLASSES, _MOST_FEATURES = 1_000_000, 1_000_000


@dataclass(frozen=True)
class Description:
    """The description of a model, stored in its file of weights.

    Attributes:
        classes: Names of the classes, in the model's order.
        multi_label: Whether a sample may have any number of classes.
        backbone: Name of the pretrained net whose features the model takes; empty for a net that
            takes pixels.
        identity: Hex digits of that net, its weights and its preprocessing.
        kind: The kind of input: ``images`` or ``text``.
        width: The number of features.
        model: Name of a net that takes pixels.
        model_options: Its options.
        side: Side of the square that images are squeezed into, in pixels.
        mean: Subtracted from each channel, on the 0..1 scale.
        std: Each channel is divided by it, on the same scale.
    """

    classes: tuple[str, ...]
    multi_label: bool = False
    backbone: str = ""
    identity: str = ""
    kind: str = "images"
    width: int = 0
    model: str = ""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    side: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def own_code(self) -> str | None:
        """The code of somebody's own that the model takes, if any."""
        if ":" in self.model:
            return self.model
        return self.backbone if names_code(self.backbone) else None


def describe(
    learnt: Learnt, classes: Sequence[str], settings: Settings, backbone: Backbone | None
) -> Description:
    """Return the description of a model besides its weights.

    Args:
        learnt: The model.
        classes: Names of the present classes.
        settings: How it learnt.
        backbone: Computes its features; None where it takes pixels.
    """
    names = tuple(classes[: learnt.task.classes])
    if backbone is not None and isinstance(learnt.model, Probe):
        return Description(
            names,
            settings.multi_label,
            backbone.name,
            backbone.identity,
            backbone.kind,
            learnt.model.head.in_features,
        )
    return Description(
        names,
        settings.multi_label,
        model=settings.model,
        model_options=settings.model_options,
        side=settings.side,
        mean=learnt.mean,
        std=learnt.std,
    )


def save_classifier(model: nn.Module, description: Description, path: Path) -> None:
    """Write a model's weights and its description to a safetensors file, atomically."""
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in model.state_dict().items()
    }
    said = json.dumps({"format": _FORMAT, **asdict(description)})
    write_atomically(path, safetensors.torch.save(tensors, metadata={"format": "pt", _KEY: said}))


@dataclass(frozen=True, eq=False)
class Classifier:
    """A classifier of images or texts, made by ``load_classifier``.

    Attributes:
        description: Its classes and its preprocessing.
        model: From features or pixels to logits, in eval mode.
        device: The device.
    """

    description: Description
    model: nn.Module
    device: torch.device

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.description.classes

    def classify(self, samples: Sequence[Any]) -> list[tuple[str, float]]:
        """Return the most likely class of each sample, and its probability.

        Args:
            samples: Paths of images, or images of Pillow; for a model of texts, texts.

        Raises:
            DataError: If a file cannot be read as an image.
        """
        found = self.probabilities(samples)
        if not len(found):
            return []
        values, places = found.max(1)
        pairs = zip(places.tolist(), values.tolist(), strict=True)
        return [(self.classes[k], value) for k, value in pairs]

    def probabilities(self, samples: Sequence[Any]) -> Tensor:
        """Return the probability of each class for each sample [N, K], as float64.

        Args:
            samples: Paths of images, or images of Pillow; for a model of texts, texts.

        Raises:
            DataError: If a file cannot be read as an image.
        """
        parts = [
            self.from_inputs(self._look(samples[start : start + _BATCH]))
            for start in range(0, len(samples), _BATCH)
        ]
        return torch.cat(parts) if parts else torch.empty(0, len(self.classes)).double()

    @torch.no_grad()
    def from_inputs(self, inputs: Tensor) -> Tensor:
        """Return probabilities [N, K] for features [N, D], or for pixels uint8 [N, 3, S, S]."""
        said = self.description
        if not said.backbone:
            inputs = normalise(inputs, said.mean, said.std)
        logits: Tensor = self.model(inputs.to(self.device)).double().cpu()
        return logits.sigmoid() if said.multi_label else logits.softmax(1)

    @cached_property
    def _backbone(self) -> Backbone:
        said = self.description
        found = find_backbone(said.backbone)
        if found.identity != said.identity:
            raise InputError(
                f"backbone {said.backbone!r} is another one here than where the classifier was "
                "trained (other weights or another version): train it again on these features"
            )
        return found

    def _look(self, samples: Sequence[Any]) -> Tensor:
        """Return features [N, D], or pixels uint8 [N, 3, S, S]."""
        if not self.description.backbone:
            squares = [self._square(sample) for sample in samples]
            return torch.stack(squares)
        net = self._backbone
        if net.kind == "images":
            samples = [
                sample if hasattr(sample, "size") else read_picture(Path(sample), net.needed_side)
                for sample in samples
            ]
            samples = [sample.convert("RGB") for sample in samples]
        return net.features([net.prepare(sample) for sample in samples], self.device)

    def _square(self, sample: Any) -> Tensor:  # noqa: ANN401 - a path or an image of Pillow
        from PIL import Image

        side = self.description.side
        if not isinstance(sample, Image.Image):
            return torch.from_numpy(read_square(Path(sample), side))
        picture = sample.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(picture).transpose(2, 0, 1))


def load_classifier(
    path: Path | str, *, code: str | None = None, device: torch.device | str = "auto"
) -> Classifier:
    """Load a classifier that ``steepest label`` trained.

    Args:
        path: The file, such as ``photos/.steepest/models/version-0007.safetensors``.
        code: ``package.module:name`` where its net or its backbone is code of your own: a file
            that came from elsewhere could name any code, and has none run that you do not name.
        device: The device.

    Raises:
        InputError: If it is no such file, or names code that was not given.
    """
    path = Path(path)
    said, tensors = _read(path)
    if (own := said.own_code) not in (None, code):
        raise InputError(f"{path} takes {own!r}, which is code: if you trust it, give code={own!r}")
    if said.backbone:
        model: nn.Module = Probe(said.width, len(said.classes))
    else:
        model = build(said.model, len(said.classes), 3, 0, said.model_options)
        check_made(model)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(f"{path}: its weights do not fit its net ({first_line(error)})") from error
    where = choose_device(device)
    return Classifier(said, model.to(where).eval(), where)


def _read(path: Path) -> tuple[Description, dict[str, Tensor]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is no file of weights ({first_line(error)})") from error
    if text is None:
        raise InputError(
            f"{path} holds weights alone, without classes: name a file of models/ in the folder "
            "of a labelling project"
        )
    try:
        table = parse_json(text)
        made = int(table.pop("format"))
        said = from_table(Description, table)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: its description is damaged ({first_line(error)})") from error
    if made > _FORMAT:
        raise InputError(f"{path} was written by a later steepest; update steepest to load it")
    if not 0 <= said.width <= _MOST_FEATURES or len(said.classes) > _MOST_CLASSES:
        raise InputError(f"{path}: its description is damaged (sizes)")
    return said, tensors

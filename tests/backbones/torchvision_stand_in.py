"""Stands for torchvision where it cannot be installed: its interface, with a small net."""

from __future__ import annotations

import enum
import importlib.machinery
import sys
import types

import numpy as np
import torch
from torch import nn


class InterpolationMode(enum.Enum):
    """As torchvision's."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class FrozenBatchNorm2d(nn.Module):
    """Only ever asked for by ``isinstance``."""


class Preset(nn.Module):
    """As ``torchvision.transforms._presets.ImageClassification``, on a fixed size."""

    def forward(self, image):
        pixels = torch.from_numpy(np.array(image.resize((16, 16)), dtype=np.float32))
        return pixels.permute(2, 0, 1) / 255 - 0.5


class TinyWeights(enum.Enum):
    IMAGENET1K_V1 = 1
    IMAGENET1K_V2 = 2
    DEFAULT = IMAGENET1K_V2

    def transforms(self):
        return Preset()


class TinyNet(nn.Module):
    """With a head that has another name than others' have."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Conv2d(3, 6, 3)
        self.last = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 10))

    def forward(self, x):
        return self.last(self.body(x).relu().mean((2, 3)))


def get_model(name, weights=None):
    with torch.random.fork_rng():
        return TinyNet(0 if weights is None else weights.value)


class _Anything(types.ModuleType):
    """A module that has a class of every name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (nn.Module,), {})
        setattr(self, name, made)
        return made


def put_in(monkeypatch):
    """Let ``import torchvision`` find the stand-in."""
    names = (
        "torchvision", "torchvision.transforms", "torchvision.transforms.functional",
        "torchvision.datasets", "torchvision.ops", "torchvision.ops.misc", "torchvision.utils",
        "torchvision.models", "torchvision.models.feature_extraction", "torchvision.io",
    )  # fmt: skip
    made = {}
    for name in names:
        module = made[name] = _Anything(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, module)
        monkeypatch.setitem(sys.modules, name, module)
    made["torchvision"].__version__ = "0.29.0"
    made["torchvision.transforms"].InterpolationMode = InterpolationMode
    made["torchvision.transforms.functional"].InterpolationMode = InterpolationMode
    made["torchvision.ops.misc"].FrozenBatchNorm2d = FrozenBatchNorm2d
    models = made["torchvision.models"]
    models.list_models = lambda: ["resnet18", "resnet50", "tinynet"]
    models.get_model_weights = lambda name: TinyWeights
    models.get_model = get_model
    return made

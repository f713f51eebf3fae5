"""The loads that are measured: a model, the shape of its inputs, and how many at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steepest.bench.trained_weights import settle
from steepest.core.seeds import generator
from steepest.errors import UnknownNameError
from steepest.models import build


@dataclass(frozen=True)
class Workload:
    """One load.

    Attributes:
        name: How it is requested.
        model: A name or a factory for ``steepest.models.build``.
        classes: The number of classes.
        shape: One sample's shape: channels first for images and volumes, [T] for tokens.
        cpu_batch: Samples at a time on a CPU by default.
        cuda_batch: Samples at a time on a GPU by default.
        vocabulary: The number of tokens where a sample is a text.
    """

    name: str
    model: str
    classes: int
    shape: tuple[int, ...]
    cpu_batch: int
    cuda_batch: int
    vocabulary: int | None = None

    def batch(self, device: torch.device) -> int:
        """Return how many samples at a time suit a device."""
        return self.cuda_batch if device.type == "cuda" else self.cpu_batch

    def make_inputs(self, count: int, seed: int) -> Tensor:
        """Draw samples [count, ...] on the CPU."""
        draws = generator(seed, "bench", "inputs", self.name)
        size = (count, *self.shape)
        if self.vocabulary is not None:
            return torch.randint(self.vocabulary, size, generator=draws)
        return torch.randn(size, generator=draws)

    def make_model(self, seed: int) -> nn.Module:
        """Make the model on the CPU, in eval mode, with weights that depend on the seed alone."""
        channels = 1 if self.vocabulary is not None else self.shape[0]
        model = build(self.model, self.classes, channels, seed)
        settle(model, self.make_inputs(4, seed), seed)
        return model

    def layout(self, *, channels_last: bool) -> torch.memory_format:
        """Return the memory layout of this load; only images and volumes have a choice."""
        choices = {3: torch.channels_last, 4: torch.channels_last_3d}
        if not channels_last or len(self.shape) not in choices:
            return torch.contiguous_format
        return choices[len(self.shape)]


_HOME = "steepest.bench.library_models"
_LISTED = (
    Workload("cifar-resnet18", "cifar-resnet18", 10, (3, 32, 32), 16, 512),
    Workload("resnet50", "resnet50", 1000, (3, 224, 224), 4, 128),
    Workload("vgg16", "vgg16", 1000, (3, 224, 224), 4, 64),
    Workload("resnet3d-18", f"{_HOME}:resnet3d_18_s1", 50, (1, 32, 32, 32), 2, 64),
    Workload("drn-d-22", "drn-d-22", 19, (3, 256, 256), 2, 32),
    Workload("vit-s16", "vit-s16", 1000, (3, 224, 224), 4, 256),
    Workload("bert-base", f"{_HOME}:bert_base", 2, (128,), 4, 128, 30522),
)
_MORE = (
    Workload("resnet3d-18-s2", "resnet3d-18", 50, (1, 32, 32, 32), 8, 128),
    Workload("small-cnn", "small-cnn", 10, (3, 16, 16), 16, 512),
)

_LIBRARY = (
    Workload("mlp", f"{_HOME}:mlp", 10, (64,), 64, 1024),
    Workload("lstm", f"{_HOME}:lstm", 5, (40,), 32, 512, 500),
    Workload("packed-lstm", f"{_HOME}:packed_lstm", 5, (40,), 32, 512, 500),
    Workload("unet", f"{_HOME}:UNet", 4, (3, 64, 64), 8, 64),
    Workload("bert", f"{_HOME}:bert", 3, (48,), 16, 256, 500),
    Workload("vit", f"{_HOME}:vit", 5, (3, 64, 64), 16, 256),
    Workload("segformer", f"{_HOME}:segformer", 4, (3, 64, 64), 8, 64),
    Workload("llama-padded", f"{_HOME}:llama", 3, (32,), 16, 256, 500),
    Workload("lora", f"{_HOME}:lora", 3, (48,), 16, 256, 500),
    Workload("t5-encoder", f"{_HOME}:t5_encoder", 3, (32,), 16, 256, 500),
    Workload("mixtral", f"{_HOME}:mixtral", 3, (24,), 16, 256, 500),
    Workload("timesformer", f"{_HOME}:timesformer", 4, (4, 3, 32, 32), 8, 64),
    Workload("graph", f"{_HOME}:Graphs", 4, (20, 16), 16, 256),
)

WORKLOADS = tuple(load.name for load in _LISTED)
"""The loads that are measured unless some are named."""

LIBRARY = (
    "mlp", "small-cnn", "lstm", "packed-lstm", "resnet3d-18-s2", "bert", "vit", "cifar-resnet18",
    "unet", "segformer", "llama-padded", "lora", "t5-encoder", "mixtral", "timesformer", "graph",
)  # fmt: skip
"""One small load of each kind of model, also of other packages."""


def names() -> list[str]:
    """Return the names of all loads."""
    return [load.name for load in (*_LISTED, *_MORE, *_LIBRARY)]


def find_workload(name: str) -> Workload:
    """Return the load of that name.

    Raises:
        UnknownNameError: Names the nearest.
    """
    known = {load.name: load for load in (*_LISTED, *_MORE, *_LIBRARY)}
    if name not in known:
        raise UnknownNameError("workload", name, known)
    return known[name]

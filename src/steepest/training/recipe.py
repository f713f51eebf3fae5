"""Training options, frozen and validated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from steepest.errors import ConfigError
from steepest.training.augment import AUGMENTATIONS, OWN

Optimizer = Literal["sgd", "adam"]
Method = Literal["scratch", "fine-tune", "probe"]
Schedule = Literal["milestones", "cosine", "constant"]

_LARGEST_TUNING_LR = 0.01


@dataclass(frozen=True)
class Recipe:
    """Options of one training; described by each field's ``help`` metadata.

    The defaults are those of the paper for CIFAR-10.

    Raises:
        ConfigError: If a value cannot be used.
    """

    method: Method = field(
        default="scratch",
        metadata={
            "help": "scratch: all weights, epoch by epoch; fine-tune: likewise, once a probe on "
            "the net's own features has become its last layer; probe: a linear head on features, "
            "trained to its minimum and regularised by cross-validation; other keys have no effect"
        },
    )
    epochs: int = field(default=200, metadata={"help": "passes over the labelled samples"})
    batch_size: int = field(default=128, metadata={"help": "samples per step"})
    optimizer: Optimizer = field(default="sgd", metadata={"help": "sgd or adam"})
    lr: float = field(default=0.1, metadata={"help": "initial learning rate"})
    momentum: float = field(default=0.9, metadata={"help": "momentum of sgd"})
    nesterov: bool = field(default=False, metadata={"help": "Nesterov momentum in sgd"})
    weight_decay: float = field(default=5e-4, metadata={"help": "weight decay of all parameters"})
    schedule: Schedule = field(
        default="milestones", metadata={"help": "milestones, cosine or constant"}
    )
    milestones: tuple[int, ...] = field(
        default=(160,), metadata={"help": "epochs at which lr is multiplied by gamma"}
    )
    gamma: float = field(default=0.1, metadata={"help": "factor on lr at each milestone"})
    augmentation: str = field(
        default="auto",
        metadata={"help": "name of an augmentation, or auto for that of the data set"},
    )
    amp: bool = field(default=False, metadata={"help": "train in bfloat16 on accelerators"})
    cuda_graph: bool = field(
        default=True,
        metadata={"help": "on a GPU, record a training step as a CUDA graph and replay it"},
    )
    compile: bool = field(
        default=False,
        metadata={"help": "on a GPU, fuse the operators of a step before recording it"},
    )
    channels_last: bool = field(
        default=True,
        metadata={"help": "use the channels-last memory format, which is often faster"},
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))
        self._check_type(int, "epochs", "batch_size")
        self._check_type(bool, "nesterov", "amp", "cuda_graph", "compile", "channels_last")
        for name in ("lr", "momentum", "weight_decay", "gamma"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            self._check(number and math.isfinite(value), name, "a finite number")
        self._check(self.epochs >= 1, "epochs", "1 or more")
        self._check(self.batch_size >= 2, "batch_size", "2 or more")
        self._check(self.lr > 0, "lr", "above 0")
        self._check(0 <= self.momentum < 1, "momentum", "0 up to below 1")
        self._check(self.weight_decay >= 0, "weight_decay", "0 or more")
        self._check(0 < self.gamma <= 1, "gamma", "above 0, at most 1")
        self._check_choice("method", get_args(Method))
        if self.method == "fine-tune":
            self._check(
                self.lr <= _LARGEST_TUNING_LR,
                "lr",
                f"{_LARGEST_TUNING_LR} at most for method=fine-tune, where a larger one would undo "
                "what the net knows; try lr=1e-4 with optimizer=adam",
            )
        self._check_choice("optimizer", get_args(Optimizer))
        self._check_choice("schedule", get_args(Schedule))
        self._check_choice("augmentation", ("auto", OWN, *AUGMENTATIONS))
        whole = all(type(m) is int and m >= 1 for m in self.milestones)
        ascending = list(self.milestones) == sorted(set(self.milestones))
        self._check(whole and ascending, "milestones", "epochs from 1 on, in ascending order")
        if self.nesterov and not self.momentum:
            raise ConfigError("nesterov needs a momentum above 0")

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        if self.schedule == "milestones":
            passed = sum(epoch >= milestone for milestone in self.milestones)
            return self.lr * self.gamma**passed
        return self.lr

    def _check(self, good: bool, name: str, wanted: str) -> None:
        if not good:
            raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be {wanted}")

    def _check_type(self, kind: type, *names: str) -> None:
        for name in names:
            self._check(type(getattr(self, name)) is kind, name, f"of type {kind.__name__}")

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        self._check(getattr(self, name) in choices, name, f"one of {', '.join(choices)}")

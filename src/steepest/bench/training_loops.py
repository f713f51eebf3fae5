"""Ways to train that are measured: as most people do, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from steepest.core.seeds import generator
from steepest.models import build
from steepest.tasks import Classification
from steepest.training.augment import AUGMENTATIONS
from steepest.training.batches import LabelledImages
from steepest.training.fast.compiled_step import CompiledStep
from steepest.training.fast.step import RecordedStep, Step

CLASSES = 10
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
STEPS: dict[str, type[Step]] = {"plain": Step, "graphed": RecordedStep, "compiled": CompiledStep}
"""Our steps, from the plainest to the fastest."""

_PADDING = 4


@dataclass(frozen=True)
class Workload:
    """Model, data and recipe to train.

    Attributes:
        model: A name for ``steepest.models.build``.
        batch: Images in one step.
        precision: ``"fp32"`` or ``"bf16"``.
        size: Height and width of the images.
        count: Images in all.
        workers: Processes of the data loader.
        seed: Decides weights, images and order.
    """

    model: str
    batch: int
    precision: str
    size: int
    count: int
    workers: int
    seed: int

    def images(self) -> Tensor:
        """Return random images, uint8 [N, 3, H, W]."""
        random = generator(self.seed, "bench", "images")
        shape = (self.count, len(MEAN), self.size, self.size)
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=random)

    def labels(self) -> Tensor:
        """Return their labels [N]."""
        return torch.arange(self.count) % CLASSES

    def make_model(self, device: torch.device) -> nn.Module:
        """Return the model in training mode, channels last."""
        model = build(self.model, CLASSES, len(MEAN), self.seed)
        return model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload, no-any-return]


TakeStep = Callable[[], None]


def our_loop(name: str, load: Workload, device: torch.device) -> TakeStep:
    """Return a function that takes the next step by one of our ways, augmentation included."""
    model = load.make_model(device)
    step = STEPS[name](
        model, Classification(CLASSES), make_optimizer(model), amp=load.precision == "bf16"
    )
    data = LabelledImages(load.images(), load.labels(), MEAN, STD, AUGMENTATIONS["crop-flip"]).to(
        device
    )
    batches = _endless(data, load, device)

    def take() -> None:
        x, y = next(batches)
        step(x.contiguous(memory_format=torch.channels_last), y)

    return take


def _endless(
    data: LabelledImages, load: Workload, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    epoch = 0
    while True:
        yield from data.batches(load.seed, epoch, load.batch, device)
        epoch += 1


def loader_loop(load: Workload, device: torch.device) -> TakeStep:
    """Return a function that takes the next step of a common loop with a data loader."""
    model = load.make_model(device)
    optimizer = make_optimizer(model)
    options: dict[str, Any] = {"num_workers": load.workers}
    if load.workers:
        options["persistent_workers"] = True
    loader = DataLoader(
        _Pictures(load.images().numpy(), load.labels().numpy(), load.seed),
        load.batch,
        shuffle=True,
        drop_last=True,
        pin_memory=device.type == "cuda",
        generator=generator(load.seed, "bench", "order"),
        **options,
    )
    batches = _over_and_over(loader)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=load.precision == "bf16")
    seen = 0.0

    def take() -> None:
        nonlocal seen
        images, labels = next(batches)
        x = images.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        y = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        with autocast:
            loss = functional.cross_entropy(model(x), y)
        torch.autograd.backward(loss)
        optimizer.step()
        seen += loss.item()

    return take


def _over_and_over(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return gradient descent as on CIFAR-10."""
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    lr: float | Tensor = torch.tensor(0.01, device=device) if on_gpu else 0.01
    return torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=5e-4, fused=on_gpu)


class _Pictures(Dataset[tuple[Tensor, int]]):
    """Images that are cropped, mirrored and normalised one by one, on demand."""

    def __init__(self, images: Any, labels: Any, seed: int) -> None:  # noqa: ANN401 - arrays
        self._images, self._labels = images.transpose(0, 2, 3, 1).copy(), labels
        self._random = np.random.default_rng(seed)
        self._mean = np.array(MEAN, dtype=np.float32)
        self._std = np.array(STD, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        image = self._images[row]
        height, width, _ = image.shape
        edge = (_PADDING, _PADDING)
        padded = np.pad(image, (edge, edge, (0, 0)))
        top, left = self._random.integers(0, 2 * _PADDING + 1, 2)
        image = padded[top : top + height, left : left + width]
        if self._random.random() < 0.5:
            image = image[:, ::-1]
        scaled = (image.astype(np.float32) / 255 - self._mean) / self._std
        return torch.from_numpy(scaled.transpose(2, 0, 1).copy()), int(self._labels[row])

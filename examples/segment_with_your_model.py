"""Learn to label every pixel with your own net, on images and label maps that are arrays.

Run it with ``python examples/segment_with_your_model.py [FOLDER]``. It draws its own pictures and
takes seconds on a CPU. With a folder, the run is kept there: the same call resumes, and ``steepest
report FOLDER`` writes a page about it.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

import steepest
from steepest.data import DATASETS, ImageSet, from_arrays
from steepest.experiment.record import Record

CLASSES = ("background", "disc", "square")
SIDE = 24
UNKNOWN = 255
"""What a label map says where nobody knows the class: such pixels count nowhere."""


class Net(nn.Module):
    """Any module from images [N, channels, H, W] to logits [N, classes, H, W]."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 16, 5, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 5, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(16, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of every pixel."""
        logits: Tensor = self.head(self.body(x))
        return logits


def make_net(classes: int, channels: int) -> nn.Module:
    """Return a fresh net; the configuration names it, with the module that it is in."""
    return Net(classes, channels)


def make_pictures(count: int, seed: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Draw a disc and a striped square on noise.

    Returns:
        Grey images [N, H, W], and label maps [N, H, W] that leave the outlines of shapes open.
    """
    random = np.random.default_rng(seed)
    images = random.integers(0, 120, (count, SIDE, SIDE)).astype(np.uint8)
    maps = np.zeros((count, SIDE, SIDE), dtype=np.uint8)
    y, x = np.mgrid[:SIDE, :SIDE]
    for image, labels in zip(images, maps, strict=True):
        for shape in (1, 2):
            top, left = random.integers(4, SIDE - 4, 2)
            across, down = np.abs(x - left), np.abs(y - top)
            away = np.hypot(across, down) if shape == 1 else np.maximum(across, down)
            bright = (away < 4) & ((shape == 1) | (down % 2 == 0))
            image[bright] = random.integers(90, 256, bright.sum())
            labels[away < 5] = UNKNOWN
            labels[away < 4] = shape
    return images, maps


@DATASETS.register("shapes")
def shapes(root: Path | None = None) -> ImageSet:  # noqa: ARG001 - nothing is read from a folder
    """Make 300 pictures to learn from and 60 to test on; the label maps say the task."""
    train, test = make_pictures(300, seed=0), make_pictures(60, seed=1)
    return from_arrays(*train, *test, CLASSES, name="shapes", augmentation="flip")


def run(folder: Path) -> list[Record]:
    """Begin with 4 label maps, and ask three times for 4 more."""
    config = steepest.load_config(
        "digits",
        [
            "name=shapes",
            "data.name=shapes",
            "task.name=segmentation",
            "model.name=__main__:make_net",
            "strategy.name=entropy-gradnorm",
            "loop.initial=4",
            "loop.k=4",
            "loop.cycles=4",
            "training.epochs=30",
            "training.batch_size=4",
            "training.lr=0.1",
        ],
    )
    return steepest.Experiment(config, folder).run()


def main() -> None:
    """Use the folder that was given, or a temporary one."""
    if len(sys.argv) > 1:
        records = run(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            records = run(Path(temporary) / "shapes")
    for record in records:
        by_class = zip(CLASSES, record.metrics["per_class_iou"], strict=True)
        told = ", ".join(f"{name} {iou:.2f}" for name, iou in by_class)
        print(f"{record.labelled} label maps: mean IoU {record.metrics['miou']:.3f} ({told})")


if __name__ == "__main__":
    main()

"""Choose what to label in a folder of images without a model: first picks, labels, next picks.

Run it with ``python examples/folder_without_a_model.py``; it takes ``pip install
'steepest[label]'``, and makes its own images: discs, squares and stripes.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import steepest

SHAPES = ("disc", "square", "stripes")


def draw(kind: str, random: np.random.Generator) -> Image.Image:
    """Return a shape of a random size and colour on a random ground."""
    image = Image.new("RGB", (96, 96), tuple(random.integers(150, 256, 3).tolist()))
    pen, colour = ImageDraw.Draw(image), tuple(random.integers(0, 120, 3).tolist())
    low, size = random.integers(5, 30), random.integers(35, 60)
    box = (int(low), int(low), int(low + size), int(low + size))
    if kind == "disc":
        pen.ellipse(box, fill=colour)
    elif kind == "square":
        pen.rectangle(box, fill=colour)
    else:
        for start in range(box[0], box[2], 10):
            pen.line((start, box[1], start, box[3]), fill=colour, width=4)
    return image


def main() -> None:
    """Choose 9 of 90 images, label them, and choose 9 more by what the labels teach."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        photos = Path(name)
        truth = {f"{number:02d}.png": SHAPES[number % 3] for number in range(90)}
        for file, kind in truth.items():
            draw(kind, random).save(photos / file)

        first = steepest.select(None, photos, k=9, progress=False)
        print(first.strategy, dict(Counter(truth[i] for i in first.ids)))

        labels = {sample: truth[sample] for sample in first.ids}  # stands for the people who label
        picks = steepest.select(None, photos, k=9, labels=labels, progress=False)
        print(picks.strategy, dict(Counter(truth[i] for i in picks.ids)))
        print(picks.verdict)


if __name__ == "__main__":
    main()

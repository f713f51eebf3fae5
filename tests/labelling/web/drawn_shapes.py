"""A folder of drawn shapes whose names say what they are: as hard as one likes, and nobody's."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SHAPES = ("circle", "square", "triangle", "star")
_CORNERS = {"square": 4, "triangle": 3}
_TENDENCY = {
    "circle": (200, 80, 70),
    "square": (70, 110, 200),
    "triangle": (90, 170, 90),
    "star": (225, 185, 60),
}


def truth(sample: str) -> str:
    """Return the shape that a picture shows: its name says so."""
    return Path(sample).stem.split("-")[0]


def draw_shapes(folder: Path, count: int, side: int = 24, *, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(count):
        shape = SHAPES[int(random.integers(len(SHAPES)))]
        _draw(shape, side, random).save(folder / f"{shape}-{number:04d}.png")
    return folder


def _draw(shape: str, side: int, random: np.random.Generator) -> Image.Image:
    width, height = side * 4 // 3, side
    ground = random.integers(190, 240, 3)
    ink = 0.75 * np.array(_TENDENCY[shape]) + 0.25 * random.integers(0, 256, 3)
    image = Image.new("RGB", (width, height), tuple(map(int, ground)))
    pen = ImageDraw.Draw(image)
    for _ in range(3):  # clutter
        x, y, size = random.random(3) * (width, height, side / 2)
        pen.ellipse(
            (x, y, x + size, y + size / 3), fill=tuple(map(int, random.integers(30, 225, 3)))
        )
    radius = side * random.uniform(0.2, 0.42)
    middle = (random.uniform(radius, width - radius), random.uniform(radius, height - radius))
    turn = random.uniform(0, 2 * math.pi)
    if shape == "circle":
        around = (*(m - radius for m in middle), *(m + radius for m in middle))
        pen.ellipse(around, fill=tuple(map(int, ink)))
    else:
        pen.polygon(_outline(shape, middle, radius, turn), fill=tuple(map(int, ink)))
    grain = random.normal(0, 5, (height, width, 3))
    noisy = np.clip(np.asarray(image, dtype=np.float64) + grain, 0, 255).astype(np.uint8)
    return Image.fromarray(noisy).filter(ImageFilter.GaussianBlur(side / 200))


def _outline(
    shape: str, middle: tuple[float, float], radius: float, turn: float
) -> list[tuple[float, float]]:
    corners = _CORNERS.get(shape, 10)
    points = []
    for corner in range(corners):
        reach = radius * (0.45 if shape == "star" and corner % 2 else 1)
        angle = turn + 2 * math.pi * corner / corners
        points.append((middle[0] + reach * math.cos(angle), middle[1] + reach * math.sin(angle)))
    return points

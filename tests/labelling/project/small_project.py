"""A folder of tiny coloured pictures, and a project on it, for tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
from PIL import Image

from steepest.labelling.project import Project, Settings

CLASSES = ("red", "green", "blue")


class Clock:
    """Time that passes when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def truth(sample: str) -> str:
    """Return the class that a picture shows: its name says so."""
    return Path(sample).stem.split("-")[0]


def make_photos(folder: Path, count: int, side: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0)
    for number in range(count):
        channel = number % 3
        pixels = np.full((side, side, 3), 60.0)
        pixels[..., channel] = 170.0
        pixels += noise.normal(0, 20, pixels.shape)
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        image.save(folder / f"{CLASSES[channel]}-{number:03d}.png")
    return folder


def make_names(folder: Path, count: int) -> Path:
    """Make files that are listed and labelled, and never looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{CLASSES[number % 3]}-{number:03d}.png").touch()
    return folder


def open_project(photos: Path, *, clock=None, folder=None, background=False, **settings) -> Project:
    return Project.open(
        photos,
        CLASSES,
        folder=folder,
        settings=Settings(**settings),
        background=background,
        **({} if clock is None else {"clock": clock}),
    )


def take_out_doors(file: sqlite3.Connection) -> None:
    """Leave a project as the version did in which the page alone wrote to it."""
    file.execute("DROP INDEX images_asked")
    for table in ("project", "questions", "rounds"):
        file.execute(f"DROP TABLE {table}")
    for table, column in (("images", "asked"), ("answers", "round"), ("answers", "reason")):
        file.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    file.execute("PRAGMA user_version = 7")

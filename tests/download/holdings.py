"""Small data sets of a catalogue, and a reader that can tell whether they are whole."""

from __future__ import annotations

import hashlib

import torch

from steepest.data import ImageSet, SealedLabels
from steepest.data.catalogue import Holding, Layout, OfficialFile, Source, Unpacking
from steepest.data.copy_checks import remedy_added
from steepest.errors import DataError

DATA = bytes(range(256)) * 40
"""What the official files of these data sets hold."""


def official(name: str, data: bytes = DATA, **more) -> OfficialFile:
    md5 = hashlib.md5(data).hexdigest()
    settings = {"url": f"http://nowhere.invalid/{name}", "md5": md5, "size_bytes": len(data)}
    return OfficialFile(name, **{**settings, **more})


def make_holding(*files: OfficialFile, layouts: tuple[Layout, ...] = (), **more) -> Holding:
    usual = (Layout(tuple(file.name for file in files)),)
    settings = {
        "name": "tiny",
        "title": "A tiny data set",
        "task": "classification",
        "train_count": 2,
        "test_count": 2,
        "classes": 2,
        "source": Source.DOWNLOAD,
        "terms": "none",
        "site": "http://nowhere.invalid/",
        "files": files,
        "layouts": layouts or usual,
    }
    return Holding(**{**settings, **more})


def packed(name: str = "tiny.zip", **more) -> OfficialFile:
    """An archive without a checksum, whose folder is the data set."""
    return OfficialFile(
        name, url=f"http://nowhere.invalid/{name}", unpacking=Unpacking("top", "tiny"), **more
    )


def make_image_set() -> ImageSet:
    images, labels = torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1])
    return ImageSet(
        "tiny", ("a", "b"), images, SealedLabels(labels), images, labels, mean=(0.0,), std=(1.0,)
    )


def read_tiny(root, *, source="official"):
    """Load the tiny data set; its folder is whole if it holds a.txt."""
    folder = root / ("tiny" if source == "official" else "shards")
    if folder.is_dir() and not (folder / "a.txt").is_file():
        with remedy_added("run `steepest data get tiny`"):
            raise DataError(f"{folder / 'a.txt'}: missing")
    return make_image_set()

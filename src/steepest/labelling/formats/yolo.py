"""YOLO: the folder of a classification data set, with a folder of images for each class."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from steepest.core.files import scratch_beside
from steepest.data.folder import SUFFIXES
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    boxes_refused,
)

_SPLITS = ("train", "val", "test")


@FORMATS.register("yolo")
class Yolo(LabelFormat):
    """Copies of the images in ``train/CLASS/``; read from ``train``, ``val`` and ``test``."""

    multi_label = False

    def write(self, labels: LabelSet, path: Path) -> None:
        """Copy the images into a new folder."""
        photos = labels.photos
        if photos is None:
            raise InputError("samples of an array are no files, which YOLO needs; take another one")
        if path.exists():
            raise InputError(f"{path} is there already; choose another folder")
        if path.resolve().is_relative_to(photos.resolve()):
            raise InputError(f"{path}: the copies would become samples; choose a place outside")
        scratch = scratch_beside(path)
        try:
            for sample, (name,) in labels.labels.items():
                source, target = photos / str(sample), scratch / _SPLITS[0] / name / str(sample)
                if name in (".", "..") or Path(name).name != name:
                    raise InputError(f"class {name!r} cannot be the name of a folder; rename it")
                if not source.resolve().is_relative_to(photos.resolve()):
                    raise InputError(f"{source}: is outside the folder of the images")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            scratch.rename(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error})") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def read(self, path: Path) -> Iterator[Row]:
        """Read the classes that images are filed under."""
        if not path.is_dir():
            raise InputError(f"{path}: is no folder; give that of a classification data set")
        splits = [path / name for name in _SPLITS if (path / name).is_dir()] or [path]
        if next(path.glob("**/labels/**/*.txt"), None) is not None:
            raise boxes_refused(str(path), "a data set of boxes")
        for split in splits:
            for folder in sorted(one for one in split.iterdir() if one.is_dir()):
                for image in sorted(folder.rglob("*")):
                    if image.suffix.lower() in SUFFIXES and not image.name.startswith("."):
                        sample = image.relative_to(folder).as_posix()
                        yield Row(str(image.relative_to(path)), sample, [folder.name])

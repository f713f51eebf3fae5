"""A folder of images as a data set: ids are relative paths, pixels are read when asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from steepest.core.seeds import SampleId
from steepest.data.image_decoding import check_image, read_pixels
from steepest.errors import DataError, InputError, SkippedFilesWarning

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})
"""The names' endings that count as images."""

_VOLUME_SUFFIXES = frozenset({".mrc", ".map", ".npy"})
_NAMED_IN_WARNING = 3


class ImageFolder(Dataset[Tensor]):
    """The images of a folder and its subfolders; names that begin with a dot are passed over.

    Args:
        root: The folder.
        size: The size of resized images: one side, or (height, width). ``None`` keeps them as
            they are, and all must then be of one size.
        channels: 3 for colour, 1 for grey.
        mean: Per-channel mean to subtract, on the 0..1 scale [C].
        std: Per-channel standard deviation to divide by [C].

    Attributes:
        ids: Relative paths with forward slashes, sorted.
        skipped: (path, reason) of each image file that is left out.
        normalised: Whether ``mean`` or ``std`` was given.

    Raises:
        DataError: If the folder is missing, has no readable image, or holds images of several
            sizes and no ``size`` is given.
        InputError: If an option cannot be used.
    """

    def __init__(
        self,
        root: str | Path,
        size: int | tuple[int, int] | None = None,
        *,
        channels: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.root = Path(root)
        sides: tuple[int, ...] | None = (size, size) if isinstance(size, int) else size
        self._channels = channels
        if channels not in (1, 3):
            raise InputError(f"channels is {channels}; use 3 for colour or 1 for grey")
        if sides is not None and (len(sides) != 2 or min(sides) < 1):
            raise InputError(f"size is {size!r}; give one side or (height, width) in pixels")
        self._size = None if sides is None else (sides[0], sides[1])
        self.normalised = mean is not None or std is not None
        self._mean = channel_values("mean", mean, 0.0, channels)
        self._std = channel_values("std", std, 1.0, channels)
        if not bool((self._std > 0).all()):
            raise InputError("std must be above 0 in every channel")
        self.ids: list[str] = []
        self.skipped: list[tuple[str, str]] = []
        self._scan()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Tensor:
        """Read one image as float [C, H, W].

        Raises:
            DataError: If the image turns out to be damaged.
        """
        image = read_pixels(self.root / self.ids[index], self._channels, self._size)
        return (image - self._mean) / self._std

    def _scan(self) -> None:
        check_folder(self.root)
        first: tuple[str, tuple[int, int]] | None = None
        for name, refusal in sorted(walk_images(self.root)):
            found = refusal or check_image(self.root / name)
            if isinstance(found, str):
                self.skipped.append((name, found))
                continue
            if self._size is None and first is not None and found != first[1]:
                raise DataError(
                    f"{self.root / name}: {found[1]}x{found[0]} pixels, but {first[0]} has "
                    f"{first[1][1]}x{first[1][0]}; give a size to resize to"
                )
            first = first or (name, found)
            self.ids.append(name)
        tell_skipped(self.root, self.skipped, len(self.ids), stacklevel=4)


def check_folder(root: Path) -> None:
    """Raise if it is not a folder.

    Raises:
        DataError: Naming the files found instead.
    """
    if not root.is_dir():
        what = "is a file, and no folder of images" if root.exists() else "no such folder"
        raise DataError(f"{root}: {what}")


def tell_skipped(
    root: Path, skipped: Sequence[tuple[SampleId, str]], usable: int, *, stacklevel: int
) -> None:
    """Warn of images that are left out, by name.

    Args:
        root: The folder.
        skipped: (path, reason) of each.
        usable: How many images are left.
        stacklevel: Of the warning.

    Raises:
        DataError: If none is left.
    """
    if not usable:
        raise DataError(f"{root}: no images in it{_explain_none(root, skipped)}")
    if not skipped:
        return
    named = "; ".join(f"{name} ({why})" for name, why in skipped[:_NAMED_IN_WARNING])
    more = len(skipped) - _NAMED_IN_WARNING
    warnings.warn(
        f"{root}: {len(skipped)} of {len(skipped) + usable} images "
        f"left out: {named}" + (f" and {more} more" if more > 0 else ""),
        SkippedFilesWarning,
        stacklevel=stacklevel,
    )


def _explain_none(root: Path, skipped: Sequence[tuple[SampleId, str]]) -> str:
    """Say why no image was found, if something else was."""
    if skipped:
        name, why = skipped[0]
        return f" ({len(skipped)} could not be read, such as {name}: {why})"
    volumes = (p for p in root.rglob("*") if p.suffix.lower() in _VOLUME_SUFFIXES)
    if (volume := next(volumes, None)) is None:
        return ""
    remedy = "save them as one array [N, 1, D, H, W] in a .npy file"
    return f", but volumes such as {volume.name}: {remedy}"


def walk_images(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each image file's relative path, and why it is left out if it is."""
    inside = root.resolve()
    for folder, subfolders, files in os.walk(root):
        # Such as .steepest, in which `steepest label` keeps small copies of the same images.
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        links = [name for name in subfolders if Path(folder, name).is_symlink()]
        visible = [name for name in files if not name.startswith(".")]
        images = [name for name in visible if Path(name).suffix.lower() in SUFFIXES]
        for name in links + images:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            printable = relative.encode(errors="backslashreplace").decode()
            if printable != relative:
                yield printable, "name is not valid UTF-8"
            else:
                yield relative, _find_refusal(path, inside)


def _find_refusal(path: Path, inside: Path) -> str:
    try:
        if not path.resolve().is_relative_to(inside):
            return "link that points outside the folder"
    except (OSError, RuntimeError):
        return "broken link"
    if path.is_dir():
        # Following it would show its images twice, or without end.
        return "link to a folder"
    # Opening a pipe would wait for ever.
    return "" if path.is_file() else "not a file"


def channel_values(
    name: str, values: Sequence[float] | None, default: float, channels: int
) -> Tensor:
    """Return one value per channel [C, 1, 1]."""
    if values is not None and len(values) != channels:
        raise InputError(f"{name} has {len(values)} values for {channels} channels")
    row = torch.tensor([default] * channels if values is None else list(values))
    return row.float().reshape(channels, 1, 1)

"""CIFAR-10: 60,000 colour images of 32x32 in ten classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import Holding, Layout, OfficialFile, Source, add_to_catalogue
from steepest.data.copy_checks import check_labels, check_md5, complete_copy
from steepest.data.shards import read_shards
from steepest.errors import DataError, first_line

Split = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Images [N, 3, 32, 32] and labels [N]."""

ReadFile = Callable[[str], bytes]
"""Reads one of the official files by its name."""

_PIXELS = 3 * 32 * 32
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)
"""Per channel, as the paper and most others use it; that of all pixels would be near 0.25."""

_FOLDER = "cifar-10-batches-py"
_ARCHIVE = "cifar-10-python.tar.gz"
_SHARDS = "cifar10"
_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}

ReadSplit = Callable[[str], Split]

HOLDING = add_to_catalogue(
    Holding(
        name="cifar10",
        title="CIFAR-10: colour images of 32x32",
        task="classification",
        train_count=50_000,
        test_count=10_000,
        classes=10,
        source=Source.DOWNLOAD,
        terms="no licence is stated; cite A. Krizhevsky, Learning Multiple Layers of Features "
        "from Tiny Images (2009)",
        site="https://www.cs.toronto.edu/~kriz/cifar.html",
        files=(
            OfficialFile(
                name="cifar-10-python.tar.gz",
                url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                md5="c58f30108f718f92721af3b95e74349a",
                size_bytes=170_498_071,
            ),
        ),
        layouts=(
            Layout(("cifar-10-batches-py",)),
            Layout(("cifar-10-python.tar.gz",)),
            Layout(("cifar10",)),
        ),
        holds=f"{_FOLDER}, {_ARCHIVE} or {_SHARDS}/",
    )
)


def open_official(
    folder: Path, archive: Path, md5: str, files: Sequence[str]
) -> tuple[Path, ReadFile] | None:
    """Find the official files, the folder before the archive.

    Returns:
        Where they are and a function that reads one; None if neither is there.

    Raises:
        DataError: If one of ``files`` is missing, or the archive is not the official one.
    """
    if folder.is_dir():
        return folder, _read_folder(folder, files)
    if archive.is_file():
        return archive, _read_archive(archive, md5, files).__getitem__
    return None


def decode_batches(
    read: ReadFile, batches: Sequence[str], where: Path, key: str = "labels"
) -> Split:
    """Decode the named batches into one split.

    Args:
        read: Reads a file.
        batches: The files' names.
        where: The folder or archive, for error messages.
        key: The name that the labels have.

    Raises:
        DataError: If a batch is damaged or has another layout.
    """
    parts = [_decode(read(name), f"{where / name}", key) for name in batches]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def decode_names(read: ReadFile, file: str, where: Path, key: str) -> tuple[str, ...]:
    """Decode the classes' names.

    Raises:
        DataError: If the file is damaged or has no such names.
    """
    names = _fields(read(file), f"{where / file}").get(key)
    if not isinstance(names, list) or not all(isinstance(n, (bytes, str)) for n in names):
        raise DataError(f"{where / file}: no list of {key}")
    try:
        return tuple(n.decode("ascii") if isinstance(n, bytes) else n for n in names)
    except UnicodeDecodeError as error:
        raise DataError(f"{where / file}: {key} are damaged") from error


def _read_folder(folder: Path, files: Sequence[str]) -> ReadFile:
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder / missing[0]}: missing")

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read ({error.strerror})") from error

    return read


def _read_archive(path: Path, md5: str, files: Sequence[str]) -> Mapping[str, bytes]:
    """Return the named files of an archive, without unpacking it to the disk."""
    check_md5(path, md5)
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if name in files else None
                if file is not None:
                    found[name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    missing = [name for name in files if name not in found]
    if missing:
        raise DataError(f"{path}: {missing[0]} is not in it")
    return found


def _fields(data: bytes, source: str) -> dict[Any, Any]:
    content = load_array_pickle(data, source)
    if not isinstance(content, dict):
        raise DataError(f"{source}: not a CIFAR batch")
    return {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in content.items()}


def _decode(data: bytes, source: str, key: str) -> Split:
    fields = _fields(data, source)
    pixels, labels = fields.get("data"), fields.get(key)
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{source}: not a CIFAR batch")
    whole = pixels.dtype == np.uint8 and pixels.ndim == 2 and pixels.shape[1] == _PIXELS
    if not whole or len(pixels) != len(labels) or not all(type(i) is int for i in labels):
        raise DataError(f"{source}: images and labels do not match")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


def load_array_pickle(data: bytes, source: str) -> object:
    """Read a pickle of numpy arrays, containers, numbers and strings.

    Args:
        data: The pickle. Strings of Python 2 come back as bytes.
        source: The file's name for error messages.

    Raises:
        DataError: If it is damaged, or asks for anything but arrays.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(data), source).load()
    except DataError:
        raise
    except Exception as error:  # damaged bytes make the unpickler raise almost anything
        raise DataError(f"{source}: truncated or damaged ({first_line(error)})") from error


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, source: str) -> None:
        super().__init__(file, encoding="bytes")
        self._source = source

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as in the base class
        match f"{module}.{name}":
            case "numpy.core.multiarray._reconstruct" | "numpy._core.multiarray._reconstruct":
                # Asked of an array, because the module's public path depends on numpy's version.
                return np.empty(0).__reduce__()[0]
            case "numpy.ndarray":
                return np.ndarray
            case "numpy.dtype":
                return _make_dtype
            case "_codecs.encode":
                return _encode_latin1
            case refused:
                raise DataError(
                    f"{self._source}: the pickle asks for {refused!r}, which arrays do not need, "
                    "and is not read"
                )


def _make_dtype(code: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:  # noqa: ANN401
    """Rebuild a dtype; old pickles give 0 and 1 where numpy wants booleans."""
    dtype: np.dtype[Any] = np.dtype(code, align=bool(align), copy=bool(copy))
    return dtype


def _encode_latin1(text: str, encoding: Any) -> bytes:  # noqa: ANN401 - bytes or str by protocol
    """Rebuild bytes that were pickled as text, the only use pickle itself has for it."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes in an unexpected encoding")
    return text.encode("latin1")


@DATASETS.register("cifar10")
def cifar10(root: Path | None = None) -> ImageSet:
    """Load CIFAR-10 from its official files or from shards.

    Raises:
        DataError: If none of them is under ``root``, or they are incomplete or damaged.
    """
    with complete_copy(HOLDING, root) as place:
        where, read = _choose_source(place)
        train, test = (_read_checked(read, split, where) for split in ("train", "test"))
    return from_arrays(
        *train,
        *test,
        CLASSES,
        name="cifar10",
        mean=MEAN,
        std=STD,
        layout="channels-first",
        augmentation="crop-flip",
    )


def _read_checked(read: ReadSplit, split: str, where: Path) -> Split:
    images, labels = read(split)
    count = HOLDING.train_count if split == "train" else HOLDING.test_count
    check_labels(labels, count, len(CLASSES), f"{where} ({split})", balanced=True)
    return images, labels


def _choose_source(root: Path) -> tuple[Path, ReadSplit]:
    files = _BATCHES["train"] + _BATCHES["test"]
    official = open_official(root / _FOLDER, root / _ARCHIVE, HOLDING.md5_of(_ARCHIVE), files)
    if official is not None:
        where, read_file = official
        return where, lambda split: decode_batches(read_file, _BATCHES[split], where)
    shards = root / _SHARDS
    if shards.is_dir():
        return shards, lambda split: read_shards(shards, split)
    raise DataError(f"{root}: CIFAR-10 is not there")

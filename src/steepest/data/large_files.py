"""Pools in large files, here or remote, read only in part, on demand.

Each is a data set that holds names and places alone, so that it is cheap to send to other
processes: they open the files themselves. Remote paths, such as ``s3://bucket/rows.parquet``, go
through fsspec.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from steepest.core.seeds import SampleId
from steepest.data.folder import channel_values
from steepest.data.image_decoding import read_pixels
from steepest.errors import DataError, InputError, in_one_line

Place = str | Path
"""A path, or a URL that fsspec knows."""

_CACHE_BYTES = 1 << 30


class ParquetRows(Dataset[Tensor]):
    """The rows of Parquet files as float vectors [D], read by row group.

    Args:
        files: A file, a folder of them, or several files in their order.
        columns: Of numbers, or of lists of numbers of one length; they are put side by side. By
            default all but that of the ids.
        ids: The column of the samples' names; by default a sample goes by the number of its row.

    Attributes:
        ids: Names of the samples [N].

    Raises:
        DataError: If a file cannot be read, or a column is none of numbers.
        InputError: If pyarrow is not installed, or there is no such column.
    """

    def __init__(
        self,
        files: Place | Sequence[Place],
        columns: Sequence[str] | None = None,
        *,
        ids: str | None = None,
    ) -> None:
        _import("pyarrow")
        several = [files] if isinstance(files, (str, Path)) else list(files)
        self._files = [file for place in several for file in _parquet_files(str(place))]
        self._opened: dict[int, Any] = {}
        self._cache: OrderedDict[int, npt.NDArray[np.float32]] = OrderedDict()
        self._groups = [
            (number, group, self._file(number).metadata.row_group(group).num_rows)
            for number in range(len(self._files))
            for group in range(self._file(number).metadata.num_row_groups)
        ]
        self._starts = np.array([0, *accumulate(rows for *_, rows in self._groups)])
        known = self._file(0).schema_arrow.names
        self._columns = [c for c in known if c != ids] if columns is None else list(columns)
        if unknown := {*self._columns, *filter(None, [ids])} - set(known):
            raise InputError(
                f"{self._files[0]} has no column {min(unknown)!r}: its columns are "
                f"{', '.join(known)}"
            )
        self.ids: Sequence[SampleId] = range(len(self)) if ids is None else self._read_ids(ids)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": {}, "_cache": OrderedDict()}

    def __getitem__(self, row: int) -> Tensor:
        """Return one row [D]."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tensor]:
        """Return some rows, each [D]; each row group is read once."""
        places = np.searchsorted(self._starts, rows, side="right") - 1
        found: dict[int, Tensor] = {}
        for group in dict.fromkeys(places.tolist()):
            table = torch.from_numpy(self._table(group))
            for at in np.flatnonzero(places == group).tolist():
                found[at] = table[int(rows[at]) - int(self._starts[group])]
        return [found[at] for at in range(len(rows))]

    def _file(self, number: int) -> Any:  # noqa: ANN401 - of pyarrow
        if number not in self._opened:
            parquet = _import("pyarrow.parquet")
            place = self._files[number]
            try:
                source = _open(place) if "://" in place else place
                self._opened[number] = parquet.ParquetFile(source)
            except InputError:
                raise
            except Exception as error:  # whatever the file system or a damaged file raises
                raise DataError(f"{place} cannot be read ({in_one_line(error)})") from error
        return self._opened[number]

    def _table(self, group: int) -> npt.NDArray[np.float32]:
        if group in self._cache:
            self._cache.move_to_end(group)
            return self._cache[group]
        number, within, _ = self._groups[group]
        try:
            read = self._file(number).read_row_group(within, columns=self._columns)
        except Exception as error:
            raise DataError(f"{self._files[number]} is damaged ({in_one_line(error)})") from error
        parts = [_numbers(read.column(name), self._files[number], name) for name in self._columns]
        table = np.ascontiguousarray(np.concatenate(parts, axis=1))
        while self._cache and (len(self._cache) + 1) * table.nbytes > _CACHE_BYTES:
            self._cache.popitem(last=False)
        self._cache[group] = table
        return table

    def _read_ids(self, column: str) -> list[SampleId]:
        return [
            name
            for number in range(len(self._files))
            for name in self._file(number).read(columns=[column]).column(0).to_pylist()
        ]


class RemoteArray(Dataset[Tensor]):
    """The rows of a remote ``.npy`` file, read by range.

    Args:
        file: Such as ``s3://bucket/rows.npy``; a file on a local disk is opened with ``np.load``.

    Raises:
        DataError: If it cannot be read, or is no array of numbers.
    """

    def __init__(self, file: Place) -> None:
        self._place = str(file)
        try:
            with _open(self._place) as opened:
                version = np.lib.format.read_magic(opened)
                read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                    version, np.lib.format.read_array_header_2_0
                )
                self._shape, fortran, self._kind = read(opened)
                self._start = opened.tell()
        except InputError:
            raise
        except Exception as error:
            raise DataError(f"{file} cannot be read as an array ({in_one_line(error)})") from error
        if fortran or self._kind.kind not in "fi" or len(self._shape) < 1:
            raise DataError(f"{file} holds {self._kind}: save floats [N, ...] in C order")
        self._row_bytes = int(np.prod(self._shape[1:], dtype=np.int64)) * self._kind.itemsize

    def __len__(self) -> int:
        return int(self._shape[0])

    def __getitem__(self, row: int) -> Tensor:
        """Return one row."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tensor]:
        """Return some rows; those that lie one behind the other are read at once."""
        spans = list(_runs(rows))
        starts = [self._start + first * self._row_bytes for first, _ in spans]
        stops = [self._start + stop * self._row_bytes for _, stop in spans]
        system, path = _file_system(self._place)
        try:
            parts = system.cat_ranges([path] * len(spans), starts, stops, on_error="raise")
            held = np.frombuffer(bytearray(b"".join(parts)), self._kind)
        except Exception as error:
            raise DataError(f"{self._place} cannot be read ({in_one_line(error)})") from error
        return list(torch.from_numpy(held.reshape(len(rows), *self._shape[1:])))


class ListedImages(Dataset[Tensor]):
    """Images of a folder by a list of its files, without searching it.

    Args:
        root: The folder, here or remote.
        names: Paths below it, which are the samples' ids: a list, or a file with one on each line;
            of a ``.csv`` file the column ``id``, or else the first.
        size: The size of resized images: one side, or (height, width). ``None`` keeps them as
            they are, and all must then be of one size.
        channels: 3 for colour, 1 for grey.
        mean: Per-channel mean to subtract, on the 0..1 scale [C].
        std: Per-channel standard deviation to divide by [C].

    Attributes:
        ids: Names of the samples [N].
        root: The folder.
        normalised: Whether ``mean`` or ``std`` was given.

    Raises:
        DataError: If the list cannot be read.
        InputError: If it is empty, or names what is not below the folder.
    """

    def __init__(
        self,
        root: Place,
        names: Place | Sequence[str],
        size: int | tuple[int, int] | None = None,
        *,
        channels: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.root = str(root)
        self.ids = _read_names(str(names)) if isinstance(names, (str, Path)) else list(names)
        for name in self.ids:
            if ".." in PurePosixPath(name).parts or name.startswith("/") or "://" in name:
                raise InputError(f"the list of images names {name!r}, which is not below {root}")
        self._size = (size, size) if isinstance(size, int) else size
        self._channels = channels
        self.normalised = mean is not None or std is not None
        self._mean = channel_values("mean", mean, 0.0, channels)
        self._std = channel_values("std", std, 1.0, channels)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Tensor:
        """Read one image as float [C, H, W].

        Raises:
            DataError: If it is missing or damaged.
        """
        name = self.ids[index]
        if "://" not in self.root:
            image = read_pixels(Path(self.root) / name, self._channels, self._size)
        else:
            place = f"{self.root.rstrip('/')}/{name}"
            with tempfile.NamedTemporaryFile(suffix=PurePosixPath(name).suffix) as file:
                file.write(_read(place))
                file.flush()
                image = read_pixels(Path(file.name), self._channels, self._size)
        return (image - self._mean) / self._std


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield where rows that follow each other start and stop."""
    start = previous = None
    for row in rows:
        if previous is not None and row != previous + 1:
            yield start or 0, previous + 1
            start = row
        start, previous = row if start is None else start, row
    if previous is not None:
        yield start or 0, previous + 1


def _numbers(column: Any, file: str, name: str) -> npt.NDArray[np.float32]:  # noqa: ANN401
    """Return a column of numbers, or of lists of them [n, D]."""
    types = _import("pyarrow.types")
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    rows = len(column)
    found = column.combine_chunks()
    if any(is_list(column.type) for is_list in lists):
        lengths = _import("pyarrow.compute").list_value_length(found).unique()
        if len(lengths) > 1 and not column.null_count:
            raise DataError(f"{file}: the lists in column {name!r} are of several lengths")
        found = found.flatten()
    kind = found.type
    if not (types.is_floating(kind) or types.is_integer(kind)) or column.null_count:
        raise DataError(
            f"{file}: column {name!r} holds {column.type}"
            f"{' with missing values' if column.null_count else ''}: name columns of numbers"
        )
    if found.null_count:
        raise DataError(f"{file}: column {name!r} has missing values: fill or leave them out")
    numbers: npt.NDArray[np.float32] = found.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(rows, -1)


def _parquet_files(place: str) -> list[str]:
    """Return a file, or those of a folder in the order of their names."""
    if place.endswith((".parquet", ".pq")):
        return [place]
    if "://" in place:
        system, path = _file_system(place)
        found = sorted(system.unstrip_protocol(f) for f in system.glob(f"{path}/**/*.parquet"))
    else:
        found = sorted(str(f) for f in Path(place).rglob("*.parquet"))
    if not found:
        raise DataError(f"{place}: no .parquet file is there")
    return found


def _read_names(place: str) -> list[str]:
    try:
        data = _read(place) if "://" in place else Path(place).read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise DataError(f"{place} cannot be read ({in_one_line(error)})") from error
    if not place.endswith(".csv"):
        return [line.strip() for line in text.splitlines() if line.strip()]
    rows = list(csv.reader(io.StringIO(text)))
    at = rows[0].index("id") if rows and "id" in rows[0] else 0
    return [row[at] for row in rows[1:] if row]


def _read(place: str) -> bytes:
    system, path = _file_system(place)
    try:
        found: bytes = system.cat_file(path)
    except Exception as error:  # each file system has its own errors
        raise DataError(f"{place} cannot be read ({in_one_line(error)})") from error
    return found


def _open(place: str) -> Any:  # noqa: ANN401 - a file of fsspec
    system, path = _file_system(place)
    return system.open(path, "rb")


def _file_system(place: str) -> tuple[Any, str]:
    try:
        system, path = _import("fsspec.core").url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{place}: fsspec cannot open it ({in_one_line(error)}); s3:// needs s3fs, gs:// gcsfs"
        ) from error
    return system, path


def _import(name: str) -> Any:  # noqa: ANN401 - a module
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"{name.partition('.')[0]} is not installed: pip install 'steepest[files]'"
        ) from error

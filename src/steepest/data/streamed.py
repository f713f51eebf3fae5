"""Samples that stay on disk, or are made when asked for, read ahead by worker processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from steepest.core.devices import usable_cores
from steepest.data.workers import Job, read_ahead
from steepest.errors import DataError, InputError, SteepestError, in_one_line

Rows = Tensor | Sequence[int]

_MOST_WORKERS = 8


class Reader(Protocol):
    """Reads one sample; every worker process gets a copy of it.

    Attributes:
        draws: The random numbers that an augmented reading takes; 0 if it knows none.
    """

    draws: int

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Return one sample.

        Args:
            row: Which one.
            draw: Uniform numbers in [0, 1) that decide the augmentation [draws]; None for the
                sample as it is scored and tested.
        """


def default_workers() -> int:
    """Return the number of reading processes: one core is left for their consumer."""
    return min(_MOST_WORKERS, usable_cores() - 1)


def choose_workers(workers: int | None) -> int:
    """Return the number of workers that an option asks for; None leaves the choice here.

    Raises:
        InputError: If it cannot be used.
    """
    if workers is None:
        return default_workers()
    if type(workers) is not int or workers < 0:
        raise InputError(f"workers is {workers!r}; give 0 to read in this process, or a number")
    return workers


class Streamed:
    """A column of samples that is read a batch at a time.

    The result depends only on the rows and the draws, not on the number of workers.

    Args:
        reader: Reads one sample.
        count: The number of samples N.
        shape: Of one sample.
        dtype: Of one sample.
        workers: Processes that read ahead; 0 reads in this one. A reader that is defined in the
            main script needs ``if __name__ == "__main__":`` around what the script does.

    Raises:
        InputError: If the number of workers cannot be used.
    """

    def __init__(
        self,
        reader: Reader,
        count: int,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        workers: int = 0,
    ) -> None:
        self.dtype = dtype
        self.workers = choose_workers(workers)
        self._reader = reader
        self._rows = torch.arange(count)
        self._shape = tuple(shape)

    @property
    def shape(self) -> torch.Size:
        """The shape that all samples together would have [N, ...]."""
        return torch.Size([len(self._rows), *self._shape])

    @property
    def rows(self) -> Tensor:
        """Row numbers of the samples in the reader [N]."""
        return self._rows

    @property
    def draws(self) -> int:
        """The random numbers that an augmented reading of one sample takes."""
        return self._reader.draws

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Streamed({list(self.shape)}, {self.dtype}, workers={self.workers})"

    def __getitem__(self, rows: Rows | slice) -> Tensor:
        """Read some samples here and now [R, ...]."""
        chosen = self._rows[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
        if not len(chosen):
            return torch.empty(0, *self._shape, dtype=self.dtype)
        return torch.stack([self.read(int(row), None) for row in chosen])

    def take(self, rows: Rows) -> Streamed:
        """Return these samples as a separate column."""
        part = Streamed(self._reader, 0, self._shape, self.dtype, workers=self.workers)
        part._rows = self._rows[torch.as_tensor(rows, dtype=torch.long)]
        return part

    def batches(self, batches: Sequence[Tensor], draws: Tensor | None = None) -> Iterator[Tensor]:
        """Read batches in their order.

        Worker processes live as long as the iterator: closing it, or dropping it, ends them.

        Args:
            batches: Rows of each batch.
            draws: Uniform numbers of every sample of this column [N, draws], for augmentation.

        Raises:
            InputError: If the draws are not what the reader takes.
            DataError: If a sample cannot be read, or a worker process ends.
        """
        if draws is not None and list(draws.shape) != [len(self), self.draws]:
            raise InputError(
                f"draws have shape {list(draws.shape)}; this data takes {[len(self), self.draws]}"
            )
        jobs = [self._job(rows, draws) for rows in batches]
        workers = min(self.workers, len(jobs))
        if not workers or multiprocessing.current_process().daemon:
            return self._read_here(jobs)
        # The rows travel with each batch: the column that is sent needs none of its own.
        return read_ahead(self.take([]).read, jobs, self._shape, self.dtype, workers)

    def read(self, row: int, draw: Tensor | None = None) -> Tensor:
        """Read one sample of the reader, whatever rows this column has.

        Raises:
            DataError: If it cannot be read, or is of another shape or type.
        """
        try:
            sample = self._reader(row, draw)
        except SteepestError:
            raise
        except Exception as error:
            raise DataError(f"sample {row} cannot be read ({in_one_line(error)})") from error
        if tuple(sample.shape) != self._shape:
            raise DataError(
                f"sample {row} has shape {list(sample.shape)} where others have "
                f"{list(self._shape)}: give all one shape, by size where that is an option"
            )
        if sample.dtype != self.dtype:
            raise DataError(f"sample {row} is {sample.dtype} where others are {self.dtype}")
        return sample

    def _job(self, rows: Tensor, draws: Tensor | None) -> Job:
        rows = rows.cpu()
        return self._rows[rows].numpy(), None if draws is None else draws[rows].cpu().numpy()

    def _read_here(self, jobs: Sequence[Job]) -> Iterator[Tensor]:
        for rows, draws in jobs:
            batch = torch.empty(len(rows), *self._shape, dtype=self.dtype)
            for place, row in enumerate(rows):
                draw = None if draws is None else torch.from_numpy(draws[place])
                batch[place] = self.read(int(row), draw)
            yield batch

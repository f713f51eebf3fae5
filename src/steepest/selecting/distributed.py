"""Passes of a model over a pool, distributed over worker processes.

Workers get the model and the pool once. A task is a run of whole batches of the pass that one
process would make, so that each batch holds the same samples: on processors of one kind all rows
are the same to the last bit. The strategy chooses from these rows in the calling process, by the
same code as ever, so that every strategy works.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.processes import Workers
from steepest.core.seeds import SampleId
from steepest.core.torch_settings import rounding_settings, take_over_rounding
from steepest.errors import InputError
from steepest.gradnorm.engine import Engine
from steepest.modules.fingerprint import fingerprint
from steepest.modules.precision import Precision
from steepest.selecting.first_logits import FirstLook, WatchedView
from steepest.selecting.options import SelectionOptions
from steepest.selecting.part_store import PartStore
from steepest.selecting.provenance import (
    Conditions,
    conditions_of,
    contents_fingerprint,
    device_kind,
    pool_fingerprint,
    value_digest,
)
from steepest.selecting.samples import Samples
from steepest.strategies import Strategy, Support
from steepest.strategies.base import Needs
from steepest.strategies.support import NO_SUPPORT
from steepest.strategies.view import Columns, Lens, Make, Prediction
from steepest.version import __version__

_MOST_ROWS = 16_384
_TASKS = 64
"""Target number of tasks in a pass; a large pass has more, to bound the rows per task."""


@dataclass(frozen=True, eq=False)
class Job:
    """The model, the pool and the settings, which a worker gets once.

    Attributes:
        lens: The model and its settings, without the gradient engine.
        pools: The pool, and the one of labelled samples if that is another.
        contents: Fingerprints of the contents of a few samples of each.
        gradients: Whether gradients are measured.
        precision: Of gradients.
        seed: Seeds every draw.
        features: Features of the user's own, by id.
        class_names: The names of the classes.
        rounding: Settings of torch that decide the last bits.
    """

    lens: Lens
    pools: tuple[Samples, ...]
    contents: tuple[str, ...]
    gradients: bool
    precision: Precision
    seed: int
    features: Mapping[Any, Tensor]
    class_names: tuple[str, ...]
    rounding: Mapping[str, Any]

    def __call__(self) -> PoolWorker:
        """Return the worker for this process."""
        take_over_rounding(self.rounding)
        for pool, contents in zip(self.pools, self.contents, strict=True):
            if contents_fingerprint(pool) != contents:
                raise InputError(
                    "a worker reads other samples of the pool than this process: give all machines "
                    "the same files, under the same names"
                )
        model = self.lens.model.eval()
        engine = Engine(model, precision=self.precision) if self.gradients else None
        return PoolWorker(self, replace(self.lens, model=model, engine=engine))


@dataclass(frozen=True, eq=False)
class PassRequest:
    """Settings that all tasks of a pass share.

    Attributes:
        pool: The number of the pool.
        make: Maps a batch to rows.
        prepared: Returned by the strategy's ``prepare``.
        size: Samples in a batch.
    """

    pool: int
    make: Make
    prepared: Any
    size: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples of one task.

    Attributes:
        positions: Positions in the pool [n].
        ids: Their ids [n].
    """

    positions: Sequence[int]
    ids: Sequence[SampleId]


@dataclass(frozen=True, eq=False)
class ChunkResult:
    """Rows of the samples of one task.

    Attributes:
        columns: Rows [n, ...] by name.
        predictions: Entropies and perhaps classes [n]; nothing if the model was not asked.
        classes: The number of classes.
        probabilities: Whether logits look like probabilities; None if there were none.
        device: The kind of device.
        torch: The version of PyTorch.
    """

    columns: Columns
    predictions: Columns
    classes: int
    probabilities: bool | None
    device: str = ""
    torch: str = ""


@dataclass(frozen=True, eq=False)
class PoolWorker:
    """Runs the model over chunks of a pool, in a worker."""

    job: Job
    lens: Lens

    def __call__(self, request: PassRequest, chunk: Chunk) -> ChunkResult:
        """Return the rows of a chunk."""
        job = self.job
        positions = chunk.positions
        plain = positions if isinstance(positions, range) else [int(p) for p in positions]
        view = WatchedView(
            FirstLook(class_names=job.class_names),
            job.pools[request.pool].part(plain, chunk.ids),
            self.lens,
            seed=job.seed,
            support=Support(features=job.features),
        )
        view.prepared = request.prepared
        columns = view.collect(request.make, size=request.size)
        predictions = {}
        if view.entropies is not None:
            predictions["entropies"] = torch.from_numpy(view.entropies)
        if view.predicted is not None:
            predictions["classes"] = torch.from_numpy(view.predicted.astype(np.int64))
        return ChunkResult(
            columns,
            predictions,
            view.classes,
            view.first.probabilities if view.first.done else None,
            device_kind(self.lens.device),
            torch.__version__,
        )


@dataclass(eq=False)
class DistributedPasses:
    """Workers for one selection, and the folder of finished parts.

    Attributes:
        workers: Run the model over chunks of the pool.
        job: Sent to each worker once.
        conditions: Required of every worker.
        about: Everything else that decides the rows.
        folder: For finished parts; None to keep none.
    """

    workers: Workers
    job: Job
    conditions: Conditions
    about: Mapping[str, Any]
    folder: Path | None
    passes: Iterator[int] = field(default_factory=itertools.count)

    def run(self, samples: Samples, request: PassRequest) -> Iterator[tuple[int, int, ChunkResult]]:
        """Yield the start, the stop and the rows of each chunk, in the order of their completion.

        Raises:
            InputError: If kept parts belong to another pass, or a worker's device differs.
        """
        number = next(self.passes)
        store = self._store(number, samples, request)
        done = set()
        for start, stop, tensors, facts in () if store is None else store.read():
            done.add((start, stop))
            yield start, stop, _unpacked(tensors, facts)
        step = _rows_per_task(len(samples), request.size)
        spans = [(s, min(s + step, len(samples))) for s in range(0, len(samples), step)]
        spans = [span for span in spans if span not in done]
        tasks = [_chunk_of(samples, *span) for span in spans]
        for place, found in self.workers.answers(self.job, request, tasks):
            self._check(found)
            start, stop = spans[place]
            if store is not None:
                store.write(start, stop, *_packed(found))
            yield start, stop, found

    def number_of(self, samples: Samples) -> int:
        """Return the number of the pool that samples are a part of."""
        return next(n for n, pool in enumerate(self.job.pools) if pool is samples.whole)

    def _check(self, found: ChunkResult) -> None:
        for name in ("device", "torch"):
            here, there = getattr(self.conditions, name), getattr(found, name)
            if here != there:
                raise InputError(
                    f"a worker computes with {name} {there!r}, and this process with {here!r}: "
                    "their scores cannot be mixed; use machines of one kind"
                )

    def _store(self, number: int, samples: Samples, request: PassRequest) -> PartStore | None:
        if self.folder is None:
            return None
        about = {
            **asdict(self.conditions),
            **self.about,
            "batch_size": request.size,
            "samples": pool_fingerprint(samples),
            "prepared": value_digest(request.prepared),
        }
        return PartStore(self.folder / f"pass-{number:04d}", about)


class DistributedView(WatchedView):
    """A pool under the present model; its passes run in workers.

    Args:
        passes: The workers.
        parts: Arguments of ``WatchedView``.
        more: Its keyword arguments.
    """

    def __init__(self, passes: DistributedPasses, *parts: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*parts, **more)
        self._passes = passes

    def _made(
        self, make: Make, size: int
    ) -> Iterator[tuple[Sequence[int], Columns, Prediction | None]]:
        samples = self._samples
        if not isinstance(samples, Samples):
            raise InputError("workers can read samples of a pool only")
        request = PassRequest(self._passes.number_of(samples), make, self.prepared, size)
        for start, stop, found in self._passes.run(samples, request):
            self.classes = found.classes or self.classes
            if start == 0 and not self.first.done and found.probabilities is not None:
                self.first.done, self.first.probabilities = True, found.probabilities
            prediction = None
            if found.predictions:
                prediction = Prediction(
                    found.predictions["entropies"], found.predictions.get("classes")
                )
            yield range(start, stop), found.columns, prediction


@contextmanager
def distribute(
    samples: Samples,
    labelled: Samples | None,
    lens: Lens,
    strategy: Strategy,
    options: SelectionOptions,
) -> Iterator[DistributedPasses | None]:
    """Yield passes over workers, which start when the first pass does; None to stay in here.

    Args:
        samples: All of the pool.
        labelled: The labelled samples, which may be of another pool.
        lens: The model and its settings in this process.
        strategy: The strategy.
        options: Of the selection.
    """
    engine, support = options.on_ray, options.support or NO_SUPPORT
    if engine is None or strategy.needs == Needs.NOTHING:
        yield None
        return
    pools = [samples.whole]
    if labelled is not None and labelled.whole is not samples.whole:
        pools.append(labelled.whole)
    job = Job(
        lens=replace(lens, engine=None),
        pools=tuple(pools),
        contents=tuple(map(contents_fingerprint, pools)),
        gradients=lens.engine is not None,
        precision=options.precision,
        seed=options.seed,
        features=support.features,
        class_names=options.class_names,
        rounding=rounding_settings(),
    )
    folder = engine.parts
    with engine.open(torch.get_num_threads(), gpu=lens.device.type == "cuda") as workers:
        yield DistributedPasses(
            workers,
            job,
            conditions_of(lens, options.precision, samples),
            {} if folder is None else _about(lens.model, strategy, options.seed, lens, support),
            folder,
        )


def _about(
    model: nn.Module, strategy: Strategy, seed: int, lens: Lens, support: Support
) -> dict[str, Any]:
    return {
        "model": fingerprint(model),
        "strategy": strategy.name,
        "options": strategy.options(),
        "seed": seed,
        "task": _name_of(lens.task),
        "targets and features": value_digest((dict(support.targets), dict(support.features))),
        "threads": torch.get_num_threads(),
        "steepest": __version__,
    }


def _name_of(task: object) -> str:
    """Return a task's class and options, and no place in memory."""
    kind = type(task)
    return repr(task) if is_dataclass(task) else f"{kind.__module__}.{kind.__qualname__}"


def _rows_per_task(rows: int, size: int) -> int:
    """Return a number of samples in whole batches that depends on nothing but the pass.

    Parts that were made with ten workers can be reused with two.
    """
    wanted = min(_MOST_ROWS, -(-rows // _TASKS))
    return size * max(1, -(-wanted // size))


def _chunk_of(samples: Samples, start: int, stop: int) -> Chunk:
    positions = samples.positions[start:stop]
    if not isinstance(positions, range):
        positions = np.asarray(positions, dtype=np.int64)  # type: ignore[assignment]
    return Chunk(positions, samples.ids[start:stop])


def _packed(found: ChunkResult) -> tuple[Columns, dict[str, Any]]:
    """Return rows as tensors and plain values."""
    tensors = {f"column {name}": value for name, value in found.columns.items()}
    tensors |= {f"prediction {name}": value for name, value in found.predictions.items()}
    return tensors, {"classes": found.classes, "probabilities": found.probabilities}


def _unpacked(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> ChunkResult:
    def named(kind: str) -> Columns:
        return {n.removeprefix(kind): t for n, t in tensors.items() if n.startswith(kind)}

    return ChunkResult(
        named("column "), named("prediction "), facts["classes"], facts["probabilities"]
    )

"""Passes of a model over a pool that are spread over worker processes.

Workers get the model and the pool once. A task is a run of whole batches of the pass that one
process would make, so that each batch holds the same samples there and here: on processors of one
kind all rows are the same to the last bit. What is done with the rows, such as choosing, is done
here and by the same code, so that every strategy works.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steepest.core.processes import Workers
from steepest.core.rounding import rounding_settings, take_over_rounding
from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.gradnorm.engine import Engine
from steepest.modules.fingerprint import fingerprint
from steepest.modules.precision import Precision
from steepest.selecting.conditions import (
    Conditions,
    conditions_of,
    contents_fingerprint,
    device_kind,
    pool_fingerprint,
)
from steepest.selecting.options import OnRay
from steepest.selecting.parts import PartStore
from steepest.selecting.probabilities import FirstLook, WatchedView
from steepest.selecting.samples import Samples
from steepest.strategies import Strategy, Support
from steepest.strategies.view import Columns, Lens, Make, Prediction
from steepest.version import __version__

_MOST_ROWS = 16_384
_TASKS = 64
"""A pass has about so many tasks; a large one has more, of so many rows at most."""


@dataclass(frozen=True, eq=False)
class Job:
    """What a worker gets once: the model, the pool, and how they are looked at.

    Attributes:
        lens: How batches are made, with the model; without its engine.
        wholes: The pool, and the one of labelled samples if that is another.
        contents: Fingerprints of what a few samples of each hold.
        gradients: Whether gradients are measured.
        precision: Of gradients.
        seed: Seeds every draw.
        features: Features of the user's own, by id.
        class_names: The names of the classes.
        rounding: Settings of torch that decide the last bits.
    """

    lens: Lens
    wholes: tuple[Samples, ...]
    contents: tuple[str, ...]
    gradients: bool
    precision: Precision
    seed: int
    features: Mapping[Any, Tensor]
    class_names: tuple[str, ...]
    rounding: Mapping[str, Any]

    def __call__(self) -> Looker:
        """Return what looks at parts of the pool in this process."""
        take_over_rounding(self.rounding)
        for whole, contents in zip(self.wholes, self.contents, strict=True):
            if contents_fingerprint(whole) != contents:
                raise InputError(
                    "a worker reads other samples of the pool than this process: give all machines "
                    "the same files, under the same names"
                )
        model = self.lens.model.eval()
        engine = Engine(model, precision=self.precision) if self.gradients else None
        return Looker(self, replace(self.lens, model=model, engine=engine))


@dataclass(frozen=True, eq=False)
class Asked:
    """What all tasks of a pass have in common.

    Attributes:
        whole: The number of the pool.
        make: Maps a batch to rows.
        prepared: What the strategy prepared.
        size: Samples in a batch.
    """

    whole: int
    make: Make
    prepared: Any
    size: int


@dataclass(frozen=True, eq=False)
class Part:
    """Some samples to look at.

    Attributes:
        positions: Where they stand in the pool [n].
        ids: Their ids [n].
    """

    positions: Sequence[int]
    ids: Sequence[SampleId]


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of some samples.

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
class Looker:
    """Looks at parts of a pool, in a worker."""

    job: Job
    lens: Lens

    def __call__(self, asked: Asked, part: Part) -> Found:
        """Return what is found of some samples."""
        job = self.job
        positions = part.positions
        plain = positions if isinstance(positions, range) else [int(p) for p in positions]
        view = WatchedView(
            FirstLook(class_names=job.class_names),
            job.wholes[asked.whole].part(plain, part.ids),
            self.lens,
            seed=job.seed,
            support=Support(features=job.features),
        )
        view.prepared = asked.prepared
        columns = view.collect(asked.make, size=asked.size)
        predictions = {}
        if view.entropies is not None:
            predictions["entropies"] = torch.from_numpy(view.entropies)
        if view.predicted is not None:
            predictions["classes"] = torch.from_numpy(view.predicted.astype(np.int64))
        return Found(
            columns,
            predictions,
            view.classes,
            view.first.probabilities if view.first.done else None,
            device_kind(self.lens.device),
            torch.__version__,
        )


@dataclass(eq=False)
class Spread:
    """Workers for one selection, and where finished parts are kept.

    Attributes:
        workers: Look at parts of the pool.
        job: What they get once.
        conditions: Under which workers have to look.
        about: What decides every row beside the conditions.
        folder: For finished parts; None to keep none.
    """

    workers: Workers
    job: Job
    conditions: Conditions
    about: Mapping[str, Any]
    folder: Path | None
    passes: Iterator[int] = field(default_factory=itertools.count)

    def run(
        self, samples: Samples, asked: Asked, prepared: object
    ) -> Iterator[tuple[int, int, Found]]:
        """Yield where each part of a pass starts and stops, and what was found, as it comes.

        Raises:
            InputError: If the parts that are kept are of another pass, or a worker's device is.
        """
        number = next(self.passes)
        store = self._store(number, samples, asked, prepared)
        done = set()
        for start, stop, tensors, facts in () if store is None else store.read():
            done.add((start, stop))
            yield start, stop, _unpacked(tensors, facts)
        step = _rows_per_task(len(samples), asked.size)
        spans = [(s, min(s + step, len(samples))) for s in range(0, len(samples), step)]
        spans = [span for span in spans if span not in done]
        tasks = [_part_of(samples, *span) for span in spans]
        for place, found in self.workers.answers(self.job, asked, tasks):
            self._check(found)
            start, stop = spans[place]
            if store is not None:
                store.write(start, stop, *_packed(found))
            yield start, stop, found

    def whole_of(self, samples: Samples) -> int:
        """Return the number of the pool that samples are a part of."""
        return next(n for n, whole in enumerate(self.job.wholes) if whole is samples.whole)

    def _check(self, found: Found) -> None:
        for name in ("device", "torch"):
            here, there = getattr(self.conditions, name), getattr(found, name)
            if here != there:
                raise InputError(
                    f"a worker computes with {name} {there!r}, and this process with {here!r}: "
                    "their scores cannot be mixed; use machines of one kind"
                )

    def _store(
        self, number: int, samples: Samples, asked: Asked, prepared: object
    ) -> PartStore | None:
        if self.folder is None:
            return None
        about = {
            **asdict(self.conditions),
            **self.about,
            "batch_size": asked.size,
            "samples": pool_fingerprint(samples),
            "prepared": _digest(prepared),
        }
        return PartStore(self.folder / f"pass-{number:04d}", about)


class SpreadView(WatchedView):
    """Samples under the present model, which workers look at.

    Args:
        spread: The workers.
        parts: What a ``WatchedView`` is made of.
        more: What a ``WatchedView`` is made of, by name.
    """

    def __init__(self, spread: Spread, *parts: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*parts, **more)
        self._spread = spread

    def _made(
        self, make: Make, size: int
    ) -> Iterator[tuple[Sequence[int], Columns, Prediction | None]]:
        samples = self._samples
        if not isinstance(samples, Samples):
            raise InputError("only samples of a pool are looked at by workers")
        asked = Asked(self._spread.whole_of(samples), make, self.prepared, size)
        for start, stop, found in self._spread.run(samples, asked, self.prepared):
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
def spread_over(
    engine: OnRay,
    samples: Samples,
    labelled: Samples | None,
    lens: Lens,
    strategy: Strategy,
    *,
    seed: int,
    precision: Precision,
    support: Support,
    class_names: tuple[str, ...],
) -> Iterator[Spread]:
    """Yield how passes are spread over workers, which are started when they are first needed.

    Args:
        engine: Where they run.
        samples: All of the pool.
        labelled: The labelled samples, which may be of another pool.
        lens: How they are looked at in this process.
        strategy: Who chooses.
        seed: Seeds every draw.
        precision: Of gradients.
        support: What was given beside the model.
        class_names: The names of the classes.
    """
    wholes = [samples.whole]
    if labelled is not None and labelled.whole is not samples.whole:
        wholes.append(labelled.whole)
    job = Job(
        lens=replace(lens, engine=None),
        wholes=tuple(wholes),
        contents=tuple(map(contents_fingerprint, wholes)),
        gradients=lens.engine is not None,
        precision=precision,
        seed=seed,
        features=support.features,
        class_names=class_names,
        rounding=rounding_settings(),
    )
    folder = engine.parts
    with engine.open(torch.get_num_threads(), gpu=lens.device.type == "cuda") as workers:
        yield Spread(
            workers,
            job,
            conditions_of(lens, precision, samples),
            {} if folder is None else _about(lens.model, strategy, seed, lens, support),
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
        "targets and features": _digest((dict(support.targets), dict(support.features))),
        "threads": torch.get_num_threads(),
        "steepest": __version__,
    }


def _name_of(task: object) -> str:
    """Return a task's class and options, and no place in memory."""
    kind = type(task)
    return repr(task) if is_dataclass(task) else f"{kind.__module__}.{kind.__qualname__}"


def _rows_per_task(rows: int, size: int) -> int:
    """Return a number of samples in whole batches that depends on nothing but the pass.

    Parts that were made with ten workers fit when there are two.
    """
    wanted = min(_MOST_ROWS, -(-rows // _TASKS))
    return size * max(1, -(-wanted // size))


def _part_of(samples: Samples, start: int, stop: int) -> Part:
    positions = samples.positions[start:stop]
    if not isinstance(positions, range):
        positions = np.asarray(positions, dtype=np.int64)  # type: ignore[assignment]
    return Part(positions, samples.ids[start:stop])


def _packed(found: Found) -> tuple[Columns, dict[str, Any]]:
    """Return what was found as tensors and plain values."""
    tensors = {f"column {name}": value for name, value in found.columns.items()}
    tensors |= {f"prediction {name}": value for name, value in found.predictions.items()}
    return tensors, {"classes": found.classes, "probabilities": found.probabilities}


def _unpacked(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Found:
    def named(kind: str) -> Columns:
        return {n.removeprefix(kind): t for n, t in tensors.items() if n.startswith(kind)}

    return Found(named("column "), named("prediction "), facts["classes"], facts["probabilities"])


def _digest(value: object) -> str:
    """Return what changes with any number in a value: equal ones have equal digests.

    What cannot be written down is like nothing else.
    """
    digest = hashlib.sha256()

    class Feed:
        def write(self, data: Any) -> int:  # noqa: ANN401 - any kind of buffer
            digest.update(data)
            return len(data)

    try:
        _Pickler(Feed(), protocol=5).dump(value)
    except Exception:  # noqa: BLE001 - whatever the parts of a strategy of the user's own raise
        return secrets.token_hex(8)
    return digest.hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Writes tensors as their numbers: by themselves they name places in memory."""

    def reducer_override(self, item: Any) -> Any:  # noqa: ANN401 - as in the base class
        if isinstance(item, nn.Module):
            return str, (fingerprint(item),)
        if isinstance(item, Tensor):
            there = item.detach().cpu().contiguous()
            data = there.view(-1).view(torch.uint8).numpy().tobytes()
            return str, (f"{there.dtype} {list(there.shape)}", data)
        return NotImplemented

"""The pool as strategies see it: candidates, labelled samples and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import SampleId
from steepest.errors import InputError, NonFiniteError
from steepest.gradnorm.engine import Engine
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import entropy
from steepest.modules.real_tokens import has_padding, without_padding
from steepest.strategies.batch import CROSS_ENTROPY, Batch
from steepest.strategies.support import NO_SUPPORT, Support
from steepest.tasks.base import Losses

Columns = dict[str, Tensor]
"""Rows that were collected from samples, by name: each [N, ...]."""

Make = Callable[[Batch], Tensor | Mapping[str, Tensor]]
"""Maps a batch of B samples to one column [B, ...] or to several by name."""


class Loadable(Protocol):
    """Samples with ids; their inputs can be loaded by position."""

    @property
    def ids(self) -> Sequence[SampleId]:
        """Ids [N]."""

    def batches(self, positions: Sequence[int], size: int) -> Iterator[Inputs]:
        """Yield the inputs at these positions, in batches."""


@dataclass(frozen=True, eq=False)
class Lens:
    """The model that samples are run through, its device and the batch size.

    Attributes:
        model: In eval mode.
        device: Where the model is.
        engine: Measures gradients; None for strategies that did not declare to need them.
        dtype: The dtype that it computes in.
        batch_size: Samples in flight.
        task: The task's losses.
        penultimate: The layer whose input is the feature; detected if None.
        by_token: Whether the model classifies each token of a text: padding must not count.
    """

    model: nn.Module
    device: torch.device
    engine: Engine | None = None
    dtype: torch.dtype = torch.float32
    batch_size: int = 256
    task: Losses = CROSS_ENTROPY
    penultimate: str | None = None
    by_token: bool = False


class Prediction(NamedTuple):
    """Outputs of the model for B samples.

    Attributes:
        entropies: Of each prediction [B].
        classes: The most likely class [B]; None where a sample has more than one.
    """

    entropies: Tensor
    classes: Tensor | None

    def columns(self) -> Columns:
        """Return the known columns by name."""
        known = {} if self.classes is None else {"classes": self.classes}
        return {"entropies": self.entropies, **known}


class PoolView:
    """Samples under the present model, with their labels and features.

    Args:
        samples: The samples, in an order that their ids and the seed alone decide.
        lens: How they are looked at.
        seed: Seeds every draw.
        labelled: The labelled samples, as a view of their own.
        unlabelled: All that have no label, if these are a part of them.
        support: Inputs besides the model.
        progress: Told of every pass over the samples.
    """

    def __init__(
        self,
        samples: Loadable,
        lens: Lens,
        *,
        seed: int = 0,
        labelled: PoolView | None = None,
        unlabelled: PoolView | None = None,
        support: Support = NO_SUPPORT,
        progress: Progress | None = None,
    ) -> None:
        self.ids = samples.ids
        self.seed = seed
        self.labelled = labelled
        self.support = support
        self.lens = lens
        self.progress = progress or SilentProgress()
        self.entropies: npt.NDArray[np.float64] | None = None
        self.predicted: npt.NDArray[np.intp] | None = None
        self.classes = 0
        self.prepared: Any = None
        self._samples = samples
        self._unlabelled = unlabelled

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a function that looks at batches refers to the whole pool, which other processes do "
            "not get: let it refer to what it needs of the pool alone"
        )

    @property
    def model(self) -> nn.Module:
        """The model, in eval mode."""
        return self.lens.model

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.lens.device

    @property
    def task(self) -> Losses:
        """The task's losses."""
        return self.lens.task

    @property
    def unlabelled(self) -> PoolView:
        """All samples without a label; the candidates may be a random part of them."""
        return self if self._unlabelled is None else self._unlabelled

    @property
    def targets(self) -> Tensor | None:
        """Training targets of these samples [N, ...], if they are known for all."""
        known = self.support.targets
        if not known or any(i not in known for i in self.ids):
            return None
        return self.support.targets_of(self.ids)

    def load(self, positions: Sequence[int]) -> Inputs:
        """Return the inputs at some positions as one batch on the device."""
        (inputs,) = self._samples.batches(positions, max(1, len(positions)))
        return batches.move(inputs, self.lens.device, self.lens.dtype)

    def load_all(self, what: str) -> Iterator[Inputs]:
        """Yield the inputs of all samples in batches, on the device.

        Args:
            what: In the words of the progress that is shown.
        """
        done = 0
        with self.progress.task(what, len(self)) as step:
            for inputs in self._samples.batches(range(len(self)), self.lens.batch_size):
                total = batches.count(inputs)
                batches.check_finite(inputs, self.ids[done : done + total])
                yield batches.move(inputs, self.lens.device, self.lens.dtype)
                done += total
                step.advance(total)

    def without_inputs(self) -> Batch:
        """Return all samples as one batch of ids alone, for those who ask no model."""
        return self._batch(self.ids, torch.empty(len(self)))

    def collect(self, make: Make, what: str = "looking", size: int | None = None) -> Columns:
        """Pass over every sample once and collect a function's result for each batch.

        Rows are kept on the CPU. A batch that does not fit into memory is cut in halves.

        Args:
            make: Maps a batch of B samples to one column [B, ...] or to several by name, and does
                nothing else: it may be called in another process, on a copy of the objects it
                refers to.
            what: In the words of the progress that is shown.
            size: Samples in a batch, by default as the user says. What something is trained on
                must not depend on that to the last bit: roundings would grow.

        Returns:
            Columns [N, ...]; a single one is called ``"rows"``.
        """
        found: Columns = {}
        predictions: Columns = {}
        predicted = {"entropies": 0, "classes": 0}
        with self.progress.task(what, len(self)) as step:
            for places, rows, prediction in self._made(make, size or self.lens.batch_size):
                self._put(found, rows, places)
                known = {} if prediction is None else prediction.columns()
                self._put(predictions, known, places)
                for name in known:
                    predicted[name] += len(places)
                step.advance(len(places))
        if predicted["entropies"] == len(self):
            self.entropies = predictions["entropies"].numpy()
        if predicted["classes"] == len(self):
            self.predicted = predictions["classes"].numpy().astype(np.intp, copy=False)
        return found

    def _made(
        self, make: Make, size: int
    ) -> Iterator[tuple[Sequence[int], Columns, Prediction | None]]:
        """Yield positions, their rows, and their predictions if the model ran.

        No batch is yielded: it would stay in memory while the next one is computed.
        """
        done, most = 0, size
        for loaded in self._samples.batches(range(len(self)), size):
            total = batches.count(loaded)
            batches.check_finite(loaded, self.ids[done : done + total])
            for places, inputs in self._together(loaded, range(done, done + total)):
                start = 0
                while start < len(places):
                    part = slice(start, start + most)
                    batch = self._batch(self._ids(places[part]), batches.take(inputs, part))
                    try:
                        made = make(batch)
                        columns = made if isinstance(made, Mapping) else {"rows": made}
                        rows = {name: rows_of(value, batch) for name, value in columns.items()}
                    except (RuntimeError, MemoryError) as error:
                        if len(batch) == 1 or not is_out_of_memory(error):
                            raise
                        most = len(batch) // 2
                        torch.cuda.empty_cache()
                        continue
                    yield places[part], rows, self._prediction(batch)
                    start += len(batch)
            done += total

    def _ids(self, places: Sequence[int]) -> Sequence[SampleId]:
        if isinstance(places, range):
            return self.ids[places.start : places.stop]
        return [self.ids[place] for place in places]

    def _together(
        self, inputs: Inputs, places: Sequence[int]
    ) -> Iterator[tuple[Sequence[int], Inputs]]:
        """Yield the parts computed together: a whole batch, or its texts of equal length."""
        if not self.lens.by_token or not has_padding(inputs):
            yield places, inputs
            return
        for texts in without_padding(inputs):
            yield [places[row] for row in texts.rows.tolist()], texts.inputs

    def _prediction(self, batch: Batch) -> Prediction | None:
        logits = batch.known_logits
        if logits is None:
            return None
        _check_predictions(logits, batch.ids)
        self.classes = logits.shape[1]
        classes = logits.argmax(1).cpu() if logits.ndim == 2 else None
        return Prediction(entropy(logits).double().cpu(), classes)

    def _put(self, columns: Columns, rows: Columns, places: Sequence[int]) -> None:
        """Write rows into columns of all samples, allocated with the first, without a copy."""
        in_order = isinstance(places, range)
        where = slice(places[0], places[-1] + 1) if in_order else torch.tensor(places)
        for name, value in rows.items():
            if name not in columns:
                columns[name] = value.new_empty((len(self), *value.shape[1:]))
            if value.shape[1:] != columns[name].shape[1:]:
                # Not left to the assignment, which would repeat a single number.
                first = self.ids[places[0]]
                raise InputError(
                    f"sample {first!r} has {list(value.shape[1:])} numbers where those "
                    f"before it have {list(columns[name].shape[1:])}: all must have the same"
                )
            columns[name][where] = value

    def _batch(self, ids: Sequence[SampleId], inputs: Inputs) -> Batch:
        lens = self.lens
        return Batch(
            ids,
            batches.move(inputs, lens.device, lens.dtype),
            model=lens.model,
            engine=lens.engine,
            seed=self.seed,
            task=lens.task,
            penultimate=lens.penultimate,
            features=self.support.features,
            prepared=self.prepared,
        )


def rows_of(value: Tensor, batch: Batch) -> Tensor:
    """Return a column on the CPU, if it has a row for each sample of the batch."""
    value = value.detach().cpu()
    if value.ndim == 0 or len(value) != len(batch):
        raise InputError(
            f"a strategy made a column {list(value.shape)} for {len(batch)} samples: one row each"
        )
    return value


def _check_predictions(logits: Tensor, ids: Sequence[SampleId]) -> None:
    """Refuse NaN: where no gradient flows through it, a norm would be 0 instead."""
    broken = logits.isnan().flatten(1).any(1)
    if bool(broken.any()):
        raise NonFiniteError(
            f"the model's output for sample {ids[int(broken.nonzero()[0])]!r} is NaN: look at the "
            "model's weights and at that sample"
        )

"""Exact per-sample gradient norms of any module: rules where available, otherwise a loop."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from steepest.core.memory import is_out_of_memory
from steepest.errors import InputError, ModelError
from steepest.gradnorm.backward.components import Squares
from steepest.gradnorm.backward.meter import Meter, Observer
from steepest.gradnorm.measure.routes import Routes, StopWatch
from steepest.gradnorm.one_by_one import disagreeing, squares_one_by_one
from steepest.gradnorm.recorded import Recorder, form_of, state_of
from steepest.gradnorm.watch.cudnn import CudnnUse
from steepest.gradnorm.watch.samples import shapes_of
from steepest.gradnorm.watch.sources import Source
from steepest.gradnorm.watch.watch import PartedError, UnwatchableError, Watch, WrittenError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import (
    agree,
    check_company,
    check_found,
    check_independence,
    check_mode,
    check_reached,
    check_weights,
    check_wrappers,
    is_unusual,
    unwrapped,
)
from steepest.modules.gradient_strides import CONCERNED
from steepest.modules.losses import IndependenceCheck, RowLosses
from steepest.modules.precision import (
    Coarseness,
    Precision,
    coarseness_of,
    computing_in,
    precision_of,
)
from steepest.modules.preserve import attributes_restored, preserved, preserved_buffers

_ONE_AT_A_TIME = threading.RLock()
"""Precision is a setting of the whole process, and models are changed while they are measured."""

_WORTH_A_WATCH = 2
"""A single sample is done at once in any case."""

_KEPT = 32
"""Forms of batches that are remembered."""

_COMPARED = 8
"""The number of samples of a form's first batch run in one batch, to detect mixing."""

_PROVED = 2
"""The fewest samples verified; the first and the last unless others are doubtful."""

_TF32 = 2.0**-10
"""How coarse numbers are that are multiplied with ten bits of fraction."""

_PARTED = 3
"""After this many successive batches with diverging control flow, the loop is used."""


@dataclass(eq=False)
class Known:
    """Knowledge about a model for one form of batch.

    Attributes:
        batches: How many batches there were.
        slow: The parameters that take a loop over the samples.
        missed: Those that did in the last batch.
        spread: Whether the model writes into tensors that it makes.
        refused: Functions that torch cannot do for all samples together.
        asked: Whether the host got to know values.
        decided: Decisions in which samples differed, and that were seen to make no difference.
        parted: Whether there were samples that take different ways through the model.
        coarseness: Of the numbers that the model computes with.
        shapes: The shapes of what it returns for some samples, and for how many.
    """

    batches: int = 0
    slow: set[nn.Parameter] = field(default_factory=set)
    missed: set[nn.Parameter] = field(default_factory=set)
    spread: bool = False
    refused: set[Callable[..., Any]] = field(default_factory=set)
    asked: bool = False
    decided: set[int] = field(default_factory=set)
    parted: bool = False
    coarseness: float = 0.0
    shapes: tuple[int, list[torch.Size]] = (0, [])


class Engine:
    """Squared per-sample gradient norms, tensor by tensor, for one model.

    One forward pass serves any number of losses. Every function that takes parameters is watched
    and measured as the gradient passes: by a rule, or by running that function again for single
    samples. Anything that cannot be watched (a custom backward pass, samples out of order) is
    measured by running the whole model sample by sample. Nothing is left out.

    Args:
        model: Any module in eval mode; its trainable parameters count.
        precision: The precision of multiplications.
        clock: Measures which route is fastest; None to go by the count of multiplications.
        graphs: Whether a GPU may record batches whose shape and loss come back.

    Attributes:
        names: Names of the trainable parameters, in the order of the columns [P].
        distrusted: The parameters that gave another number than autograd, and take the loop ever
            after.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        precision: Precision = "tf32",
        clock: StopWatch | None = None,
        graphs: bool = True,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
        self.model = unwrapped(model)
        self._parameters: dict[str, nn.Parameter] = {}
        self._layers: list[nn.Module] = []
        self._sources: list[Source] = []
        self.names: list[str] = []
        self.precision = precision
        self._known: OrderedDict[object, Known] = OrderedDict()
        self._independence = IndependenceCheck()
        self._parted = 0
        self.distrusted: set[nn.Parameter] = set()
        self._last = Known()
        self._changes_buffers, self._graphs, self._recorder = False, graphs, Recorder()
        self._normalises = False
        self.check()
        self.routes = Routes(clock, tf32=precision == "tf32")
        self.observer: Observer | None = None

    def check(self) -> None:
        """Look at the model again: its mode, and which parameters it has and trains."""
        named = dict(self.model.named_modules())
        check_mode(named)
        self._layers = list(named.values())
        self._cudnn = CudnnUse(self._layers)
        self._normalises |= any(isinstance(layer, _NormBase) for layer in self._layers)
        found = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        if not found:
            raise InputError("the model has no trainable parameter: set requires_grad on some")
        if list(found) == self.names and all(map(is_, found.values(), self._parameters.values())):
            return
        check_wrappers(self.model)
        check_weights(found)
        self._parameters, self.names = found, list(found)
        self._sources = [Source(p, parameter=p) for p in found.values()]
        self._known.clear()
        self._parted = 0

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the parameters; results are in single precision at least."""
        return precision_of(self._parameters.values())

    @property
    def coarseness(self) -> float:
        """Of the numbers that the model computes with, as far as the last batch showed."""
        return self._last.coarseness

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        found = (p.device for p in self._parameters.values() if not p.is_meta)
        return next(found, torch.device("meta"))

    def squared_norms(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]]:
        """Measure one batch.

        Args:
            inputs: N samples.
            losses: Maps the model's outputs for some rows of the batch to losses, each [N].

        Returns:
            The model's outputs (detached logits or the like stay the caller's business), and for
            each loss the squared norms [N, P] in double precision.
        """
        inputs = batches.detached(inputs)
        with _ONE_AT_A_TIME:
            return self._replayed(inputs, losses) or self._measured(inputs, losses)

    def _replayed(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]] | None:
        """Measure a batch on a GPU by a recording; None if no recording is valid."""
        if self.device.type != "cuda" or not self._graphs or self.observer is not None:
            return None
        key = (losses, form_of(inputs))
        # The device works while the host makes sure that the recording still holds.
        recording = self._recorder.start(key, inputs)
        self.check()
        self._last = self._known_of(inputs)
        if recording is not None and recording.state != state_of(self.model):
            self._recorder.drop(key)
            recording = None
        elif recording is None and self._is_recordable() and self._recorder.wants(key):
            with self._measuring():
                state = state_of(self.model)
                recording = self._recorder.record(
                    key, inputs, lambda some: self.traceable(some, losses), state
                )
                if recording is not None:
                    recording.start(inputs)
        return None if recording is None else recording.finish()

    def _is_recordable(self) -> bool:
        known = self._last
        fine = known.batches > 0 and not (known.asked or known.parted)
        return fine and not (self._slow(known) | known.missed) and not self._changes_buffers

    def _known_of(self, inputs: Inputs) -> Known:
        """Return the knowledge about batches like this one, to be extended."""
        names = tuple(inputs) if isinstance(inputs, Mapping) else ()
        form = names, tuple((t.shape[1:], t.dtype) for t in batches.tensors_of(inputs))
        known = self._known.setdefault(form, Known())
        self._known.move_to_end(form)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return known

    def _slow(self, known: Known) -> set[nn.Parameter]:
        """Return the parameters that are not watched."""
        unusual = {p for p in self._parameters.values() if is_unusual(p)}
        return known.slow | self.distrusted | unusual

    def _measured(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]]:
        self.check()
        known = self._last = self._known_of(inputs)
        known.batches += 1
        total = batches.count(inputs)
        # A single sample tells nothing of company.
        is_new = known.batches == 1 or known.shapes[0] == 1 < total
        with self._measuring(), preserved_buffers(self._layers) as buffers:
            with computing_in("fp32", self.device):
                self._independence.check(self.restored_call, inputs, losses)
                if is_new:
                    rows, together = self._in_company(known, inputs)
                    if not self._is_fine():
                        self._try_out(known, inputs, losses)
            if total < _WORTH_A_WATCH or self._parted >= _PARTED:
                outputs, tables, reached = self._all_alone(known, inputs, losses)
            else:
                outputs, tables, reached = self._watched(known, inputs, losses)
            self._changes_buffers |= buffers.changed()
        if is_new and self._is_fine():
            check_company(outputs, rows, together, known.coarseness)
        check_found(reached, total)
        return outputs, tables

    def _watched(
        self, known: Known, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Tensor], set[nn.Parameter]]:
        """Measure by rules where possible, and verify them; the rest by the loop over samples."""
        total = batches.count(inputs)
        while True:
            outputs, found, known.missed, decisions = self.by_rules(known, inputs, losses)
            if self.routes.settle_doubts():
                continue
            if outputs is None:
                return self._all_alone(known, inputs, losses)
            tables = [self.columns(squares, total) for squares in found]
            fast = set(self._parameters.values()) - self._slow(known) - known.missed
            rows, doubtful = _rows_to_prove(known, decisions, total)
            wrong = self._disproved(fast, rows, inputs, losses, tables)
            if doubtful and not self._is_fine():
                wrong |= self._says_otherwise(rows, inputs, outputs)
            if not wrong:
                self._parted = 0
                known.decided.update(decisions)
                break
            if doubtful:
                # Only these samples may be concerned, so nothing is wrong with the rules.
                known.parted, self._parted = True, self._parted + 1
                return self._all_alone(known, inputs, losses)
            self.distrust(wrong)
        reached = set[nn.Parameter]().union(*found)
        if slow := self.named(self._slow(known) | known.missed):
            places = [column for column, name in enumerate(self.names) if name in slow]
            rest, more, _ = self._one_by_one(inputs, losses, slow)
            for table, columns in zip(tables, rest, strict=True):
                table[:, places] = columns.to(table.device)
            reached |= more
        return outputs, tables, reached

    def _all_alone(
        self, known: Known, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Tensor], set[nn.Parameter]]:
        """Measure every parameter by the loop over samples."""
        known.missed = set(self._parameters.values())
        tables, reached, said = self._one_by_one(inputs, losses, self._parameters)
        if all(isinstance(one, Tensor) and one.ndim and len(one) == 1 for one in said):
            shapes = {one.shape for one in said}
            if len(shapes) == 1:
                return torch.cat(said), tables, reached
        with torch.no_grad():
            return self.restored_call(inputs), tables, reached

    def _one_by_one(
        self,
        inputs: Inputs,
        losses: RowLosses,
        parameters: Mapping[str, nn.Parameter],
        rows: Iterable[int] | None = None,
    ) -> tuple[list[Tensor], set[nn.Parameter], list[Any]]:
        half = self.coarseness >= torch.finfo(torch.float16).eps
        mode = None if self._normalises else nullcontext()
        with attributes_restored(self._layers) as attributes:

            def call(sample: Inputs) -> Any:  # noqa: ANN401
                outputs = batches.call(self.model, sample, mode=mode)
                attributes.reset()
                return outputs

            return squares_one_by_one(call, inputs, losses, parameters, rows=rows, half=half)

    def _is_fine(self) -> bool:
        """Say whether rounding is so fine that two ways to one number can be compared."""
        exact = self.dtype in {torch.float32, torch.float64} and self.precision != "bf16"
        return exact and self.device.type == "cpu"

    def _in_company(self, known: Known, inputs: Inputs) -> tuple[Tensor, Any]:
        """Run some samples in one batch, and detect the precision in which the model computes."""
        rows = torch.linspace(0, (total := batches.count(inputs)) - 1, min(_COMPARED, total))
        rows = rows.round().long().to(batches.tensors_of(inputs)[0].device)
        with Coarseness() as seen:
            together = self.restored_call(batches.take(inputs, rows))
        known.coarseness = max(coarseness_of(self.model.parameters()), seen.worst)
        known.shapes = len(rows), shapes_of(together)
        self._normalises |= not CONCERNED.isdisjoint(seen.called)
        for place in (0, len(rows) - 1) if total > 1 and not self._is_fine() else ():
            alone = self.restored_call(batches.take(inputs, rows[place : place + 1]))
            check_independence(alone, together, place, coarseness=known.coarseness)
        return rows, together

    def _disproved(
        self,
        fast: set[nn.Parameter],
        rows: list[int],
        inputs: Inputs,
        losses: RowLosses,
        tables: Sequence[Tensor],
    ) -> set[nn.Parameter]:
        """Measure some samples of a batch alone; return the parameters that disagree.

        None is measured where rounding is coarse: two samples were verified beforehand, in full
        precision.

        Args:
            fast: The parameters that were measured by rules.
            rows: The samples.
            inputs: N samples.
            losses: The measurements.
            tables: The result [N, P], for each loss.
        """
        if not (fast and rows and self._is_fine()):
            return set()
        named = self.named(fast)
        places = [column for column, name in enumerate(self.names) if name in named]
        alone, _, _ = self._one_by_one(inputs, losses, named, rows)
        mine = [table[rows][:, places] for table in tables]
        return self._off(named, mine, alone)

    def _off(
        self, named: Mapping[str, nn.Parameter], mine: list[Tensor], alone: list[Tensor]
    ) -> set[nn.Parameter]:
        """Return which parameters have squared norms [n, P] that differ from those by the loop."""
        wrong = disagreeing(mine, alone, self.dtype, self.coarseness).tolist()
        return {p for p, off in zip(named.values(), wrong, strict=True) if off}

    def _says_otherwise(
        self,
        rows: Iterable[int],
        inputs: Inputs,
        outputs: Any,  # noqa: ANN401
    ) -> set[nn.Parameter]:
        """Return every parameter if the model says something else of some samples alone.

        Where rounding is coarse, norms cannot tell whether a decision for the whole batch mattered.
        """
        coarseness = max(self.coarseness, _TF32 if self.precision == "tf32" else 0.0)
        for row in rows:
            alone = self.restored_call(batches.take(inputs, slice(row, row + 1)))
            if not agree(alone, outputs, row, coarseness):
                return set(self._parameters.values())
        return set()

    def _try_out(self, known: Known, inputs: Inputs, losses: RowLosses) -> None:
        """Prove the rules on two samples in full precision, where that of batches is coarse."""
        total = batches.count(inputs)
        if total < _WORTH_A_WATCH:
            return
        ends = torch.tensor([0, total - 1], device=batches.tensors_of(inputs)[0].device)
        some = batches.take(inputs, ends)
        self.routes.kernels = False
        try:
            _, found, missed, _ = self.by_rules(known, some, losses)
        finally:
            self.routes.kernels = True
        if fast := self.named(set(self._parameters.values()) - self._slow(known) - missed):
            mine = [self.columns(squares, 2, fast.values()) for squares in found]
            alone, _, _ = self._one_by_one(some, losses, fast)
            self.distrusted |= self._off(fast, mine, alone)

    def distrust(self, parameters: set[nn.Parameter]) -> None:
        """Measure some parameters by the whole model from now on."""
        self.distrusted |= parameters
        self._recorder.clear()

    def by_rules(
        self, known: Known, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Squares], set[nn.Parameter], dict[int, set[int]]]:
        """Measure the parameters that can be watched; name the others.

        Nothing here waits for the device.
        """
        total = batches.count(inputs)
        while True:
            slow = self._slow(known)
            fast = [source for source in self._sources if source.parameter not in slow]
            self.routes.doubts = {}
            for source in fast:
                source.copy = None
            watch = Watch(fast, total, spread=known.spread, refused=known.refused)
            try:
                with closing(watch):
                    return self._by_rules(known, watch, inputs, losses)
            except UnwatchableError as error:
                known.slow |= error.roots
            except WrittenError:
                known.slow |= set(self._parameters.values()) if known.spread else set()
                known.spread = True
            except PartedError:
                known.parted, self._parted = True, self._parted + 1
                return None, [], set(self._parameters.values()), {}
            except (ModelError, RuntimeError, ValueError, TypeError) as error:
                if is_out_of_memory(error) or not fast:
                    raise
                # It finds fault with being watched, or fails in any case, and then says so.
                known.slow |= set(self._parameters.values())

    def _by_rules(
        self, known: Known, watch: Watch, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Squares], set[nn.Parameter], dict[int, set[int]]]:
        watched = bool(watch.sources)
        with self._cudnn.beside() if watched else nullcontext():
            if watched:
                with attributes_restored(self._layers):
                    outputs = watch.run(self.model, inputs, known.shapes)
            else:
                outputs = self.restored_call(inputs)
            known.asked |= watch.asked
            values = losses(outputs, slice(0, watch.samples.count))
            check_reached(values)
            meter = Meter(watch, self.routes, self.observer)
            return outputs, *meter.measure_all(values, outputs), watch.doubtful

    def forward(self, inputs: Inputs, *, copied: bool = True) -> Any:  # noqa: ANN401
        """Run the model as for a measurement; return its outputs."""
        with self._measuring():
            return self.restored_call(batches.detached(inputs), copied=copied)

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        with (
            torch.inference_mode(mode=False),
            _uncompiled(),
            preserved(self._layers),
            torch.enable_grad(),
            computing_in(self.precision, self.device),
            self._cudnn.differentiable(),
        ):
            yield

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Prepare for ``traceable``: operations are then recorded rather than timed."""
        with self.routes.tracing(), self._measuring():
            yield

    def traceable(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor], Tensor]:
        """Measure a batch by operations alone that do not depend on its values.

        Args:
            inputs: N samples.
            losses: Gives losses, each [N].

        Returns:
            The outputs, squared norms [N, P] for each loss, and whether sums cancelled somewhere,
            so that the batch has to be measured again.

        Raises:
            ModelError: If a parameter cannot be measured in this way.
        """
        known = self._known_of(inputs)
        outputs, found, missed, _ = self.by_rules(known, inputs, losses)
        missed |= self._slow(known)
        if missed or known.asked or known.parted:
            names = list(self.named(missed))
            raise ModelError(f"{', '.join(names[:3])} cannot be measured by a compiled program")
        doubts = [flags.any() for flags in self.routes.doubts.values()]
        tables = [self.columns(squares, batches.count(inputs)) for squares in found]
        none = torch.zeros((), dtype=torch.bool, device=self.device)
        return outputs, tables, torch.stack(doubts).any() if doubts else none

    def parameters(self) -> list[nn.Parameter]:
        """Return the trainable parameters, in the order of the columns."""
        return list(self._parameters.values())

    def named(self, parameters: Iterable[nn.Parameter]) -> dict[str, nn.Parameter]:
        """Return some of the parameters by name, in the model's order."""
        chosen = set(parameters)
        return {name: p for name, p in self._parameters.items() if p in chosen}

    def slow_names(self) -> list[str]:
        """Return the names of the parameters that took a loop over the last samples."""
        return list(self.named(self._slow(self._last) | self._last.missed))

    def columns(
        self, squares: Squares, total: int, parameters: Iterable[nn.Parameter] | None = None
    ) -> Tensor:
        """Return a table of squared norms [N, P], zero where nothing was found."""
        zero = torch.zeros(total, dtype=torch.float64, device=self.device)
        kind = (zero.dtype, zero.device)
        found = (squares.get(p, zero) for p in parameters or self._parameters.values())
        return torch.stack([c if (c.dtype, c.device) == kind else c.to(zero) for c in found], dim=1)

    def restored_call(self, inputs: Inputs, *, copied: bool = True) -> Any:  # noqa: ANN401
        """Run the model, and put back the attributes that it sets on its way."""
        with attributes_restored(self._layers):
            return batches.call(self.model, inputs, copied=copied)


def _uncompiled() -> AbstractContextManager[object]:
    """Let compiled parts of a model run as they were written, so that they can be watched.

    Where nothing was ever compiled there are none, and the compiler takes a second to import.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _rows_to_prove(
    known: Known, decisions: Mapping[int, set[int]], total: int
) -> tuple[list[int], bool]:
    """Return the samples to measure again by autograd alone, and whether a decision asks for it.

    A model may treat some batches in another way: batches 1, 2, 4, 8 … are looked at.

    Args:
        known: Of the form of the batch.
        decisions: Samples for which the model would have decided otherwise.
        total: The number of samples.
    """
    looked_at = known.batches.bit_count() == 1
    rows: set[int] = set()
    for decision, others in decisions.items():
        if looked_at or decision not in known.decided:
            rows |= {min(others), max(others)}
    doubtful = bool(rows)
    for end in (0, total - 1) if looked_at else ():
        if len(rows) < _PROVED:
            rows.add(end)
    return sorted(rows), doubtful

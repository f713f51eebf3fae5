"""Exact per-sample gradient norms of any module: rules where there are some, a loop elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import InputError, ModelError
from steepest.gradnorm.components import Squares
from steepest.gradnorm.cudnn import CudnnUse
from steepest.gradnorm.forms import Forms, Known
from steepest.gradnorm.loop import squares_one_by_one
from steepest.gradnorm.meter import Meter, Observer
from steepest.gradnorm.recorded import Recorder, form_of
from steepest.gradnorm.routes import Clock, Routes
from steepest.gradnorm.scattered import add_by_row
from steepest.gradnorm.sources import Source
from steepest.gradnorm.state import state_of
from steepest.gradnorm.steps import Plan
from steepest.gradnorm.trial import wrong_in_batch
from steepest.gradnorm.uncompiled import uncompiled
from steepest.gradnorm.watch import Watch
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import (
    check_found,
    check_mode,
    check_reached,
    check_weights,
    check_wrappers,
    unwrapped,
)
from steepest.modules.losses import RowLosses
from steepest.modules.precision import Precision, computing_in, precision_of
from steepest.modules.preserve import attributes_restored, preserved, preserved_buffers

_ONE_AT_A_TIME = threading.RLock()
"""Precision is a setting of the whole process, and models are changed while they are measured."""


class Engine:
    """Squared per-sample gradient norms, tensor by tensor, for one model.

    One forward pass serves any number of losses. Every function that takes parameters is watched
    and measured as the gradient passes: by a rule, or by running that function again for single
    samples. What cannot be watched (a backward pass of the user's own, samples out of order) is
    measured by running the whole model sample by sample. Nothing is left out.

    Args:
        model: Any module in eval mode; its trainable parameters count.
        precision: In what precision to multiply.
        clock: Measures which route is fastest; None to go by the count of multiplications.
        graphs: Whether a GPU may record batches whose shape and loss come back.

    Attributes:
        names: Names of the trainable parameters, in the order of the columns [P].
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        precision: Precision = "tf32",
        clock: Clock | None = None,
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
        self._forms = Forms(self)
        self._last = Known()
        self._changes_buffers, self._graphs, self._recorder = False, graphs, Recorder()
        self.check()
        self.routes = Routes(clock, tf32=precision == "tf32")
        self.observer: Observer | None = None

    def check(self) -> None:
        """Look at the model again: its mode, and which parameters it has and trains."""
        named = dict(self.model.named_modules())
        check_mode(named)
        self._layers = list(named.values())
        self._cudnn = CudnnUse(self._layers)
        found = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        if not found:
            raise InputError("the model has no trainable parameter: set requires_grad on some")
        if list(found) == self.names and all(map(is_, found.values(), self._parameters.values())):
            return
        check_wrappers(self.model)
        check_weights(found)
        self._parameters, self.names = found, list(found)
        self._sources = [Source(p, parameter=p) for p in found.values()]
        self._forms.clear()

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the parameters; results are in single precision at least."""
        return precision_of(self._parameters.values())

    @property
    def coarseness(self) -> float:
        """Of the numbers that the model computes with, as far as the last batch showed."""
        return 0.0 if self._last.plan is None else self._last.plan.coarseness

    @property
    def distrusted(self) -> set[nn.Parameter]:
        """The parameters that gave another number than autograd, and take the loop ever after."""
        return self._forms.distrusted

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
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
        """Measure a batch on a GPU by a recording; None if there is none that holds."""
        if self.device.type != "cuda" or not self._graphs or self.observer is not None:
            return None
        key = (losses, form_of(inputs))
        # The device works while the host makes sure that the recording still holds.
        recording = self._recorder.start(key, inputs)
        self.check()
        self._last = self._forms.known(inputs)
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
        plan = self._last.plan
        if plan is None or plan.moves is not None:
            return False  # What it picks by values has to be looked at in every batch.
        known = plan.checked and not self._last.unplanned()
        return known and not self._changes_buffers

    def _measured(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]]:
        self.check()
        known = self._last = self._forms.known(inputs)
        known.batches += 1
        with self._measuring(), preserved_buffers(self._layers) as buffers:
            while True:
                plan = self.plan(inputs, losses)
                outputs, found, known.missed = self.by_rules(plan, inputs, losses)
                first, given = known.batches == 1, (known.missed, inputs, losses, found)
                known.by_row = add_by_row(self, plan, *given, first=first)
                if self.routes.settle_doubts():
                    continue
                # A model may treat some batches in another way: look at 1, 2, 4, 8 …
                if known.batches.bit_count() > 1:
                    break
                fast = set(self._parameters.values()) - known.slow()
                told = outputs if first else None
                wrong = wrong_in_batch(self, plan, fast, inputs, losses, found, told)
                if not wrong:
                    break
                self.distrust(wrong)
            if slow := self.named(known.slow()):
                alone = squares_one_by_one(self.restored_call, inputs, losses, slow)
                for squares, more in zip(found, alone, strict=True):
                    squares.update(more)
            self._changes_buffers |= buffers.changed()
        check_found(found, total := batches.count(inputs))
        return outputs, [self.columns(squares, total) for squares in found]

    def plan(self, inputs: Inputs, losses: RowLosses) -> Plan:
        """Find out what the model does with its parameters in such batches, unless it is known."""
        return self._forms.plan(inputs, losses)

    def distrust(self, parameters: set[nn.Parameter]) -> None:
        """Measure some parameters by the whole model from now on."""
        self._forms.distrust(parameters)
        self._recorder.clear()

    def by_rules(
        self, plan: Plan, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Squares], set[nn.Parameter]]:
        """Measure what can be watched; name the parameters that fell out.

        Nothing here waits for the device.
        """
        total = batches.count(inputs)
        fast = self._sources
        if plan.slow:
            fast = [source for source in fast if source.parameter not in plan.slow]
        self.routes.doubts = {}
        watch = Watch(fast, total, plan, data=batches.tensors_of(inputs), model=self.model)
        with closing(watch), self._cudnn.beside(plan):
            outputs = self.restored_call(inputs, watch)
            values = losses(outputs, slice(0, total))
            check_reached(values)
            meter = Meter(watch, self.routes, self.observer)
            return outputs, *meter.measure_all(values, outputs)

    def forward(self, inputs: Inputs) -> Any:  # noqa: ANN401
        """Run the model as for a measurement; return its outputs."""
        with self._measuring():
            return self.restored_call(batches.detached(inputs))

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        with (
            torch.inference_mode(mode=False),
            uncompiled(),
            preserved(self._layers),
            torch.enable_grad(),
            computing_in(self.precision, self.device),
            self._cudnn.differentiable(),
        ):
            yield

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Prepare for ``traceable``; what it does is then recorded, not measured by a clock."""
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
        plan = self.plan(inputs, losses)
        if plan.moves is not None:
            raise ModelError("what a model picks by values has to be looked at in every batch")
        outputs, found, missed = self.by_rules(plan, inputs, losses)
        if missed or plan.slow:
            names = list(self.named(missed | plan.slow))
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

    def by_row_names(self) -> list[str]:
        """Return the names of the parameters whose rows the last batch's gradients told apart."""
        return list(self.named(self._last.by_row))

    def slow_names(self) -> list[str]:
        """Return the names of the parameters that took a loop over the last samples."""
        return list(self.named(self._last.slow()))

    def columns(self, squares: Squares, total: int) -> Tensor:
        """Return a table of squared norms [N, P], zero where nothing was found."""
        zero = torch.zeros(total, dtype=torch.float64, device=self.device)
        kind = (zero.dtype, zero.device)
        found = (squares.get(p, zero) for p in self._parameters.values())
        return torch.stack([c if (c.dtype, c.device) == kind else c.to(zero) for c in found], dim=1)

    def restored_call(self, inputs: Inputs, watch: Watch | None = None) -> Any:  # noqa: ANN401
        """Run the model, watched or not, and put back the attributes that it sets on its way."""
        copied = self._forms.changes_inputs
        with attributes_restored(self._layers):
            return batches.call(self.model, inputs, copied=copied, mode=watch)

"""Exact per-sample gradient norms of any module: rules where there are some, a loop elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import InputError, ModelError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.attributes import attributes_restored
from steepest.gradnorm.checks import check_mode, check_weights, is_unusual
from steepest.gradnorm.components import Squares
from steepest.gradnorm.inputs import Inputs
from steepest.gradnorm.loop import squares_one_by_one
from steepest.gradnorm.losses import RowLosses
from steepest.gradnorm.meter import Meter, Observer
from steepest.gradnorm.precision import Precision, computing_in
from steepest.gradnorm.preserve import preserved
from steepest.gradnorm.probe import Probe
from steepest.gradnorm.recorded import Recorder, form_of
from steepest.gradnorm.routes import Clock, Routes
from steepest.gradnorm.scaling import rescaled, scales_of
from steepest.gradnorm.state import state_of
from steepest.gradnorm.steps import Plan
from steepest.gradnorm.trial import disagreeing
from steepest.gradnorm.watch import Watch


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
        self.model: nn.Module = getattr(model, "_orig_mod", model)
        self._parameters: dict[str, nn.Parameter] = {}
        self.names: list[str] = []
        self.precision = precision
        self._plan: Plan | None = None
        self._missed: set[nn.Parameter] = set()
        self._changes_inputs = False
        self._graphs, self._recorder = graphs, Recorder()
        self._refresh()
        self._routes = Routes(clock, tf32=precision == "tf32")
        self.observer: Observer | None = None

    def _refresh(self) -> None:
        """Look at the model again: its mode, and which parameters it has and trains."""
        check_mode(self.model)
        found = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        known = self._parameters
        if not found:
            raise InputError("the model has no trainable parameter: set requires_grad on some")
        if found.keys() == known.keys() and all(p is known[n] for n, p in found.items()):
            return
        check_weights(found)
        self._parameters, self.names, self._plan = found, list(found), None

    @property
    def dtype(self) -> torch.dtype:
        """The precision that results are given in: that of the parameters."""
        first = next(iter(self._parameters.values())).dtype
        return first.to_real() if first.is_complex else first

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(iter(self._parameters.values())).device

    def squared_norms(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]]:
        """Measure one batch.

        Args:
            inputs: N samples.
            losses: Maps the model's outputs for some rows of the batch to losses, each [N].

        Returns:
            The model's outputs (detached logits or the like stay the caller's business), and for
            each loss the squared norms [N, P] in double precision.
        """
        self._refresh()
        inputs = batches.detached(inputs)
        if (replayed := self._replayed(inputs, losses)) is not None:
            return replayed
        with self._measuring():
            plan = self.plan(inputs, losses)
            outputs, found, missed = self.by_rules(plan, inputs, losses)
            while self._doubtful():
                outputs, found, missed = self.by_rules(plan, inputs, losses)
            self._missed = missed
            slow = [p for p in self._parameters.values() if p in plan.slow | missed]
            if slow:
                for squares, more in zip(found, self._by_loop(inputs, losses, slow), strict=True):
                    squares.update(more)
        total = batches.count(inputs)
        return outputs, [self.columns(squares, total) for squares in found]

    def _replayed(self, inputs: Inputs, losses: RowLosses) -> tuple[Any, list[Tensor]] | None:
        """Measure a batch on a GPU by a recording; None if there is none for it."""
        if self.device.type != "cuda" or not self._graphs or self.observer or self.slow_names():
            return None
        if self._plan is None or not self._plan.checked:
            return None
        key = (losses, form_of(inputs), state_of(self.model))
        if self._recorder.wants(key):
            with self._measuring():
                self._recorder.record(key, inputs, lambda some: self.traceable(some, losses))
        return self._recorder.replay(key, inputs)

    def plan(self, inputs: Inputs, losses: RowLosses) -> Plan:
        """Find out what the model does with its parameters, unless that is known."""
        if self._plan is None or not (self._plan.checked or batches.count(inputs) < 2):
            everything = list(self._parameters.values())
            left_out = {p for p in everything if is_unusual(p)}
            with computing_in("fp32", self.device):
                while True:
                    probe = Probe(self.model, everything, left_out, inputs, losses)
                    plan = probe.plan()
                    self._changes_inputs |= probe.changes_inputs
                    wrong = self._wrong_on_trial(plan, inputs, losses)
                    if not wrong:
                        break
                    left_out |= wrong
            self._plan = plan
        return self._plan

    def _wrong_on_trial(self, plan: Plan, inputs: Inputs, losses: RowLosses) -> set[nn.Parameter]:
        """Measure two samples both ways; return the parameters for which the plan is wrong."""
        fast = [p for p in self._parameters.values() if p not in plan.slow]
        some = batches.take(inputs, slice(0, min(2, batches.count(inputs))))
        if not fast:
            return set()
        self._routes.kernels = False
        try:
            _, found, missed = self.by_rules(plan, some, losses)
        finally:
            self._routes.kernels = True
        self._require_grad(fast)
        alone = squares_one_by_one(self._restored_call, some, losses, self.named(fast))
        return disagreeing(found, alone) - missed

    def by_rules(
        self, plan: Plan, inputs: Inputs, losses: RowLosses
    ) -> tuple[Any, list[Squares], set[nn.Parameter]]:
        """Measure what can be watched; name the parameters that fell out.

        Nothing here waits for the device.
        """
        total = batches.count(inputs)
        fast = [p for p in self._parameters.values() if p not in plan.slow]
        self._require_grad(fast)
        self._routes.doubts = {}
        watch = Watch(fast, total, plan)
        with watch:
            outputs = self._restored_call(inputs)
        values = losses(outputs, slice(0, total))
        meter = Meter(watch, self._routes, self.observer)
        found: list[Squares] = []
        missed: set[nn.Parameter] = set()
        for index, value in enumerate(values):
            squares: Squares = {}
            if value.requires_grad:
                meter.phase = "ignore"
                scales = scales_of(value, outputs)
                loss = (value * scales.to(value.dtype)).sum()
                squares, lost = meter.measure(loss, keep=index + 1 < len(values))
                squares = rescaled(squares, scales)
                missed |= lost
            found.append(squares)
        # A parameter that fell out for one loss is measured by the loop for all of them.
        kept = [{p: s for p, s in squares.items() if p not in missed} for squares in found]
        return outputs, kept, missed

    def forward(self, inputs: Inputs) -> Any:  # noqa: ANN401
        """Run the model as for a measurement; return its outputs."""
        with self._measuring():
            return self._restored_call(batches.detached(inputs))

    def _call(self, inputs: Inputs) -> Any:  # noqa: ANN401
        if self._changes_inputs:
            inputs = batches.cloned(inputs)
        return batches.call(self.model, inputs)

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        with (
            torch.inference_mode(mode=False),
            torch.compiler.set_stance("force_eager"),
            preserved(self.model),
            torch.enable_grad(),
            computing_in(self.precision, self.device),
        ):
            yield

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Prepare for ``traceable``; what it does is then recorded, not measured by a clock."""
        timed, self._routes.clock = self._routes.clock, None
        self._routes.traced = True
        try:
            with self._measuring():
                yield
        finally:
            self._routes.clock, self._routes.traced = timed, False

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
        outputs, found, missed = self.by_rules(plan, inputs, losses)
        if missed or plan.slow:
            names = list(self.named(missed | plan.slow))
            raise ModelError(f"{', '.join(names[:3])} cannot be measured by a compiled program")
        doubts = [flags.any() for flags in self._routes.doubts.values()]
        tables = [self.columns(squares, batches.count(inputs)) for squares in found]
        none = torch.zeros((), dtype=torch.bool, device=self.device)
        return outputs, tables, torch.stack(doubts).any() if doubts else none

    def named(self, parameters: Iterable[nn.Parameter]) -> dict[str, nn.Parameter]:
        """Return some of the parameters by name, in the model's order."""
        chosen = set(parameters)
        return {name: p for name, p in self._parameters.items() if p in chosen}

    def slow_names(self) -> list[str]:
        """Return the names of the parameters that take a loop over the samples."""
        return [] if self._plan is None else list(self.named(self._plan.slow | self._missed))

    def route_at(self, place: int) -> str:
        """Return the route that the largest parameter of a step took last."""
        return self._routes.taken.get(place, "–")

    def columns(self, squares: Squares, total: int) -> Tensor:
        """Return a table of squared norms [N, P], zero where nothing was found."""
        zero = torch.zeros(total, dtype=torch.float64, device=self.device)
        table = [squares[p].double() if p in squares else zero for p in self._parameters.values()]
        return torch.stack([column.to(self.device) for column in table], dim=1)

    def _doubtful(self) -> bool:
        """Say whether sums cancelled somewhere, and take another route there from now on."""
        doubts = self._routes.doubts
        if not doubts:
            return False
        flags = torch.stack([flags.any() for flags in doubts.values()]).cpu()
        places = {p for p, bad in zip(doubts, flags.tolist(), strict=True) if bad}
        again = bool(places - self._routes.careful)
        self._routes.careful |= places
        return again

    def _by_loop(
        self, inputs: Inputs, losses: RowLosses, slow: list[nn.Parameter]
    ) -> list[Squares]:
        """Measure some parameters one sample at a time, through autograd alone."""
        self._require_grad(slow)
        return squares_one_by_one(self._restored_call, inputs, losses, self.named(slow))

    def _restored_call(self, inputs: Inputs) -> Any:  # noqa: ANN401
        with attributes_restored(self.model):
            return self._call(inputs)

    def _require_grad(self, wanted: Iterable[nn.Parameter]) -> None:
        chosen = set(wanted)
        for parameter in self._parameters.values():
            parameter.requires_grad_(parameter in chosen)

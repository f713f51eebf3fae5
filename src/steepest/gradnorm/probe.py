"""Find out what a model does with its parameters, from two tiny batches of its first samples.

A rule has to know which rows of what passes through a function belong to which sample. The two
batches tell: a dimension that holds the samples follows the batch size, and the gradient in a
sample's rows must follow the weight of that sample's loss. They also show a model that mixes its
samples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.errors import ModelError, SteepestError
from steepest.gradnorm.orders import first_disorder, moves_to_expect
from steepest.gradnorm.rows import Rows, measurable, settled
from steepest.gradnorm.scaling import scales_of
from steepest.gradnorm.sources import Source
from steepest.gradnorm.steps import Kind, Plan, Step, locate, same_place
from steepest.gradnorm.watch import UnwatchableError, Watch
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import check_independence
from steepest.modules.losses import RowLosses
from steepest.modules.precision import Coarseness, coarseness_of
from steepest.modules.preserve import attributes_restored

_SMALL, _LARGE = 2, 5
_ATTEMPTS = 100


class Probe:
    """Makes the plan for a model.

    Args:
        model: Any module in eval mode.
        parameters: Its trainable parameters.
        slow: Those that are to be measured sample by sample in any case.
        inputs: N samples.
        losses: What will be measured.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: list[nn.Parameter],
        slow: set[nn.Parameter],
        inputs: Inputs,
        losses: RowLosses,
    ) -> None:
        self._model, self._parameters, self._slow = model, parameters, set(slow)
        self._inputs, self._losses = inputs, losses
        self._total = batches.count(inputs)
        self._sizes = (_SMALL, 3 if self._total < 3 else min(self._total, _LARGE))
        self._kinds: dict[int, Kind] = {}
        self._sure = True
        self._coarseness = coarseness_of(model.parameters())
        self.changes_inputs = False

    def plan_or_loop(self) -> Plan:
        """Make a plan; where not even two samples fit into memory, the plan is a loop."""
        try:
            return self.plan()
        except (RuntimeError, MemoryError) as error:
            if self._total > 1 or not is_out_of_memory(error):
                raise
            return Plan([], set(self._parameters), checked=False)

    def plan(self) -> Plan:
        """Try until a plan holds for both batches; each failure rules something out."""
        for _ in range(_ATTEMPTS):
            if self._slow.issuperset(self._parameters):
                break
            passes: list[tuple[Watch, Any]] = []
            try:
                for size in self._sizes:
                    passes.append(self._run(size))  # noqa: PERF401 - closed below, however many
                plan = self._plan_of(passes)
            except UnwatchableError as error:
                self._leave_out(error.roots)
                continue
            except (RuntimeError, ValueError, TypeError) as error:
                if is_out_of_memory(error) or isinstance(error, SteepestError):
                    raise
                break  # Overwritten values, or activations that are to be computed again.
            finally:
                for watch, _ in passes:
                    watch.close()
            if plan is not None:
                return plan
        return Plan([], set(self._parameters), checked=True)

    def _plan_of(self, passes: list[tuple[Watch, Any]]) -> Plan | None:
        """Return the plan that holds for both batches; None if something was ruled out."""
        (small, small_out), (large, large_out) = passes
        if not self._agree(small, large) or not self._keeps_order(small, large):
            return None
        if not self._in_order(passes):
            return None
        check_independence(small_out, large_out, coarseness=self._coarseness)
        for use in [*small.uses, *large.uses]:
            small.steps[use.place].overwritten |= use.results_overwritten()
        checked = self._sure and self._total >= _SMALL
        moves = moves_to_expect(small.orders, large.orders)
        return Plan(small.steps, self._slow, checked, moves, self._coarseness)

    def _run(self, size: int) -> tuple[Watch, Any]:
        inputs = batches.take(self._inputs, self._rows(size))
        given = batches.tensors_of(inputs)
        versions = [tensor._version for tensor in given]  # noqa: SLF001 - cheaper than equality
        watched = [Source(p, parameter=p) for p in self._parameters if p not in self._slow]
        watch = Watch(watched, size, data=given, model=self._model, kinds=self._kinds)
        try:
            with attributes_restored(self._model.modules()), Coarseness() as seen:
                outputs = batches.call(self._model, inputs, copied=False, mode=watch)
            self._coarseness = max(self._coarseness, seen.worst)
        except ModelError as error:
            watch.close()
            # It may want its samples in a certain order, or find fault with being watched.
            self._run_as_given()
            raise UnwatchableError(set(self._parameters)) from error
        except BaseException:
            watch.close()
            raise
        self.changes_inputs |= versions != [tensor._version for tensor in given]  # noqa: SLF001
        return watch, outputs

    def _run_as_given(self) -> None:
        """Run the whole batch unwatched: a model that fails even then says why."""
        with attributes_restored(self._model.modules()):
            batches.call(self._model, self._inputs)

    def _rows(self, size: int) -> Tensor:
        """Return which samples to look at: from all over the batch, last ones first.

        A model that sorts its samples would hardly find those in order as well.
        """
        device = batches.tensors_of(self._inputs)[0].device
        last = self._total - 1
        between = torch.linspace(last, 0, size).round().long()[1:-1]
        # The first two are the same for every size: their outputs are compared.
        return torch.cat([torch.tensor([last, 0]), between]).to(device)

    def _leave_out(self, roots: set[nn.Parameter]) -> None:
        self._slow |= roots
        self._kinds = {}

    def _agree(self, small: Watch, large: Watch) -> bool:
        """Find the samples in every call; False if something had to be ruled out."""
        pairs = list(zip(small.steps, large.steps, strict=False))
        matched = next((k for k, (a, b) in enumerate(pairs) if not same_place(a, b)), len(pairs))
        rest = [*small.steps[matched:], *large.steps[matched:]]
        if rest:
            lost = {root for step in rest for root in step.roots}
            self._leave_out(lost | _behind_disorder(small, large))
            return False
        for place, (a, b) in enumerate(pairs):
            if a.kind == "derived" and a.returned != b.returned:
                # Spread out for the samples, as a class token is: this is a use.
                self._kinds = {k: v for k, v in self._kinds.items() if k < place}
                self._kinds[place] = "use"
                return False
        lost = {
            root
            for a, b in pairs
            if a.kind == "use" and not locate(a, self._sizes[0], b, self._sizes[1])
            for root in a.roots
        }
        if lost:
            self._leave_out(lost)
            return False
        for a, b in pairs:
            b.inputs, b.outputs, b.choices = a.inputs, a.outputs, a.choices
        return True

    def _keeps_order(self, small: Watch, large: Watch) -> bool:
        """Rule out what comes behind samples whose order stems from the data."""
        lost = _behind_disorder(small, large)
        if lost:
            self._leave_out(lost)
        return not lost

    def _in_order(self, passes: list[tuple[Watch, Any]]) -> bool:
        """Check the order of the samples in every use; False if something was ruled out."""
        plans = [watch.steps for watch, _ in passes]
        lost: set[nn.Parameter] = set()
        for watch, outputs in passes:
            if watch.samples <= self._total:
                # Some samples would stand in twice, which a loss with targets cannot.
                lost |= self._out_of_order(watch, outputs, plans)
        for watch, _ in passes:
            for use in watch.uses:
                steps = [steps[use.place] for steps in plans]
                if use.gradients and not measurable(use, steps, self._coarseness):
                    lost |= use.step.roots
        if lost:
            self._leave_out(lost)
        return not lost

    def _out_of_order(
        self,
        watch: Watch,
        outputs: Any,  # noqa: ANN401
        plans: list[list[Step]],
    ) -> set[nn.Parameter]:
        # With labels these are other samples' labels: any loss of the outputs will do.
        several = self._losses(outputs, slice(0, watch.samples))
        values = torch.stack([(1 + 0.37 * j) * v for j, v in enumerate(several)]).sum(0)
        lost: set[nn.Parameter] = set()
        if not values.requires_grad:
            return lost
        rows = Rows(watch)
        # In half precision the rows of a sure sample would vanish, and tell nothing.
        rows.send(values * scales_of(values, outputs).to(values.dtype))
        for use in watch.uses:
            if not settled(use, rows, [steps[use.place] for steps in plans], self._coarseness):
                lost |= use.step.roots
            elif len(use.step.choices) > 1 and not rows.seen(use):
                # Nothing arrived that could tell: another batch may.
                lost |= use.step.roots
                self._sure = False
        return lost


def _behind_disorder(small: Watch, large: Watch) -> set[nn.Parameter]:
    """Return the parameters that meet samples whose order stems from the data."""
    place = first_disorder(small.orders, large.orders)
    behind = [] if place is None else small.steps[place:]
    return {root for step in behind if step.kind == "use" for root in step.roots}

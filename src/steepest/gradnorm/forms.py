"""What is known of a model, for each form of its batches.

Sentences of another length or images of another size may take another way through the model, so
each form is looked at on its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import nn

from steepest.gradnorm.probe import Probe
from steepest.gradnorm.steps import Plan
from steepest.gradnorm.trial import wrong_on_trial
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import is_unusual
from steepest.modules.losses import IndependenceCheck, RowLosses
from steepest.modules.precision import computing_in

if TYPE_CHECKING:
    from steepest.gradnorm.engine import Engine

_KEPT = 32
"""Forms that are remembered; a plan holds no numbers of the data."""


@dataclass(eq=False)
class Known:
    """What is known of a model for one form of batch.

    Attributes:
        plan: What the model does with its parameters; None if that has to be found out.
        missed: The parameters that fell out of the last batch, though planned.
        by_row: The parameters out of these and out of the plan that took no loop all the same.
        batches: How many batches there were.
    """

    plan: Plan | None = None
    missed: set[nn.Parameter] = field(default_factory=set)
    by_row: set[nn.Parameter] = field(default_factory=set)
    batches: int = 0

    def unplanned(self) -> set[nn.Parameter]:
        """Return the parameters that no plan speaks for."""
        return set() if self.plan is None else self.plan.slow | self.missed

    def slow(self) -> set[nn.Parameter]:
        """Return the parameters that take a loop over the samples."""
        return self.unplanned() - self.by_row


class Forms:
    """Plans for one model by the form of the batch; those unused for longest make room.

    Args:
        engine: Whose model it is.

    Attributes:
        distrusted: The parameters that take a loop in every form.
        changes_inputs: Whether the model has been seen to write into what it is given.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: OrderedDict[object, Known] = OrderedDict()
        self._independence = IndependenceCheck()
        self.distrusted: set[nn.Parameter] = set()
        self.changes_inputs = False

    def known(self, inputs: Inputs) -> Known:
        """Return what is known of batches like this one, to be added to."""
        form = _form(inputs)
        known = self._known.setdefault(form, Known())
        self._known.move_to_end(form)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return known

    def clear(self) -> None:
        """Forget all plans: the model has other parameters."""
        self._known.clear()

    def distrust(self, parameters: set[nn.Parameter]) -> None:
        """Measure some parameters by the whole model from now on, in every form."""
        self.distrusted |= parameters
        for known in self._known.values():
            known.plan = None

    def plan(self, inputs: Inputs, losses: RowLosses) -> Plan:
        """Find out what the model does with its parameters, unless that is known."""
        known = self.known(inputs)
        plan = known.plan
        if plan is None or not (plan.checked or batches.count(inputs) < 2):
            plan = self._made(inputs, losses)
            known.plan = plan
        return plan

    def _made(self, inputs: Inputs, losses: RowLosses) -> Plan:
        engine = self._engine
        everything = engine.parameters()
        with computing_in("fp32", engine.device):
            self._independence.check(engine.restored_call, inputs, losses)
        while True:
            unwatched = self.distrusted | {p for p in everything if is_unusual(p)}
            probe = Probe(engine.model, everything, unwatched, inputs, losses)
            with computing_in("fp32", engine.device):
                plan = probe.plan_or_loop()
                self.changes_inputs |= probe.changes_inputs
                wrong = wrong_on_trial(engine, plan, inputs, losses)
            if not wrong:
                return plan
            engine.distrust(wrong)


def _form(inputs: Inputs) -> object:
    """Return all of a batch's shape but the number of samples."""
    names = tuple(inputs) if isinstance(inputs, Mapping) else ()
    return names, tuple((t.shape[1:], t.dtype) for t in batches.tensors_of(inputs))

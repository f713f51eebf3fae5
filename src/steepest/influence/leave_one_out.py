"""The truth that influence predicts: train again without each example, to the optimum."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError, ModelError
from steepest.influence.examples import Source
from steepest.influence.functional_model import measuring, plain
from steepest.influence.objective import Objective, check_amount
from steepest.influence.solution import StopWatch
from steepest.influence.vectors import Vector
from steepest.tasks.base import Losses

_ROUNDS = 20
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Effect of leaving out each example.

    Attributes:
        effects: By how much the summed test loss rose without the example [R].
        rows: The examples' rows [R].
        model: A copy of the model in double precision, at the optimum with all examples.
        gradient_norm: The largest ‖∇J‖ that any of the trainings ended with.
        seconds: How long it took.
    """

    effects: Tensor
    rows: Tensor
    model: nn.Module
    gradient_norm: float
    seconds: float

    def to_table(self) -> dict[str, Any]:
        """Return everything but the model as plain numbers, ready for JSON."""
        return {
            "effects": self.effects.tolist(),
            "rows": self.rows.tolist(),
            "gradient_norm": self.gradient_norm,
            "seconds": self.seconds,
        }


def leave_one_out(
    model: nn.Module,
    task: Losses,
    train: Source,
    test: Source,
    *,
    weight_decay: float,
    rows: Sequence[int] | None = None,
    progress: bool | Progress = True,
) -> LeaveOneOut:
    """Train a copy of a small convex model to its optimum, then again without each example.

    The objective without example i is 1/n Σ_{j ≠ i} L(x_j) + ½ · weight_decay · ‖θ‖²; every
    training starts from the optimum with all of them. Influence predicts s · ∇L(x_i) / n.

    Args:
        model: A model whose objective is strongly convex, such as one linear layer; not changed.
        task: Whose training loss is meant.
        train: The n examples.
        test: Whose summed loss is watched.
        weight_decay: Above 0, or there is no single optimum.
        rows: The examples to leave out, one at a time; None for each of them.
        progress: Whether to show progress.

    Raises:
        InputError: If there is no weight decay.
        ModelError: If an optimum is not reached, as for models that are not convex.
    """
    if check_amount("weight_decay", weight_decay) == 0:
        raise InputError("weight_decay is 0: without it there may be no optimum; give more")
    watch = StopWatch()
    exact = copy.deepcopy(plain(model)).double().eval()
    wanted = (
        torch.arange(len(train)) if rows is None else torch.tensor(list(rows), dtype=torch.long)
    )
    training = _Training(exact, task, train, weight_decay)
    watched = _Training(exact, task, test, 0.0)
    effects: list[float] = []
    with as_progress(progress).task("leave one out", len(wanted) + 1) as step:
        optimum, largest = training.reach_optimum(training.start(), None)
        before = watched.total_loss(optimum)
        step.advance()
        for row in wanted.tolist():
            found, rest = training.reach_optimum(optimum, row)
            largest = max(largest, rest)
            effects.append(watched.total_loss(found) - before)
            step.advance()
    with torch.no_grad():
        for name, parameter in exact.named_parameters():
            if name in optimum:
                parameter.copy_(optimum[name])
    values = torch.tensor(effects, dtype=torch.float64)
    return LeaveOneOut(values, wanted, exact, largest, watch.seconds())


class _Training:
    """One objective with the examples in memory, with or without one of them."""

    def __init__(
        self, model: nn.Module, task: Losses, examples: Source, weight_decay: float
    ) -> None:
        self._objective = Objective(model, task, examples, weight_decay=weight_decay)
        self._batches = list(self._objective.batches())

    def start(self) -> Vector:
        """Return the model's parameters."""
        return {name: p.clone() for name, p in self._objective.parameters.items()}

    def total_loss(self, parameters: Vector) -> float:
        """Return Σ_j L(x_j)."""
        with measuring(self._objective.model), torch.no_grad():
            return float(self._losses(parameters).sum())

    def reach_optimum(self, start: Vector, left_out: int | None) -> tuple[Vector, float]:
        """Return the optimum and the remaining gradient there."""
        leaves = {name: p.detach().clone().requires_grad_() for name, p in start.items()}
        enough = _TOLERANCE / sum(p.numel() for p in leaves.values()) ** 0.5
        keep = torch.ones(len(self._objective), dtype=torch.float64)
        if left_out is not None:
            keep[left_out] = 0.0

        def value() -> Tensor:
            for leaf in leaves.values():
                leaf.grad = None
            decay = torch.stack([p.square().sum() for p in leaves.values()]).sum()
            weighed = (keep.to(decay.device) * self._losses(leaves)).sum() / len(keep)
            found: Tensor = weighed + self._objective.weight_decay / 2 * decay
            torch.autograd.backward(found, inputs=list(leaves.values()))
            return found

        with measuring(self._objective.model):
            for number in range(_ROUNDS):
                # Near the optimum values differ by rounding alone, and mislead a line search.
                near = bool(number % 2)
                search = torch.optim.LBFGS(
                    leaves.values(), max_iter=100, history_size=50, tolerance_change=0.0,
                    tolerance_grad=enough,
                    line_search_fn=None if near else "strong_wolfe",
                )  # fmt: skip
                search.step(value)  # type: ignore[no-untyped-call]
                value()
                rest = float(torch.cat([_slope(p) for p in leaves.values()]).norm())
                if rest <= _TOLERANCE:
                    return {name: p.detach() for name, p in leaves.items()}, rest
        raise ModelError(
            f"no optimum was reached (gradient norm {rest:.1e}): give a convex model, or more "
            "weight decay"
        )

    def _losses(self, parameters: Vector) -> Tensor:
        return torch.cat(
            [
                self._objective.losses(self._objective.logits(parameters, inputs), targets)
                for inputs, targets in self._batches
            ]
        )


def _slope(parameter: Tensor) -> Tensor:
    found = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return found.reshape(-1)

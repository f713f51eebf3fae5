"""Whether what passes through a call can be told apart by sample, and measured there."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.gradnorm.layout import Layout
from steepest.gradnorm.steps import Step, settle
from steepest.gradnorm.uses import Phase, Use
from steepest.gradnorm.watch import Watch
from steepest.modules.precision import allowed, differ, largest

_DISORDER, _DISORDER_OF_HALF = 1e-4, 0.1
"""What rounding may lose. Where two orders are both so near, the nearer is right."""

_FAINT = 2.0**7
"""Entries below so many times the smallest normal number keep too few digits to follow a weight."""


class Rows:
    """Collects the gradients of every use for a plain and for a weighted sum of the losses."""

    def __init__(self, watch: Watch) -> None:
        self.phase: Phase = "ignore"
        self._watch = watch
        self.plain: dict[Use, dict[int, Tensor]] = {}
        self.weighted: dict[Use, dict[int, Tensor]] = {}
        # Powers of two scale exactly, so that no rounding can be taken for disorder.
        self.weights = torch.exp2(torch.arange(watch.samples, dtype=torch.float64) - 3)
        for use in watch.uses:
            use.listener = self

    def send(self, values: Tensor) -> None:
        """Send both sums back through the model."""
        weights = self.weights.to(values.device, values.dtype)
        for loss, kept in ((values.sum(), self.plain), ((values * weights).sum(), self.weighted)):
            for use in self._watch.uses:
                use.gradients = {}
            self.phase = "rows"
            torch.autograd.grad(loss, self._watch.leaves(), retain_graph=True, allow_unused=True)
            self.phase = "ignore"
            kept.update({use: use.gradients for use in self._watch.uses})

    def arrived(self, use: Use) -> None:
        """Do nothing: the use keeps its gradients."""

    def seen(self, use: Use) -> bool:
        """Say whether any gradient other than zero arrived."""
        found = self.plain[use].values()
        return not all(bool((gradient.abs() <= _faint(gradient)).all()) for gradient in found)

    def disorder(self, use: Use) -> float:
        """Return by what share some sample's rows do not follow the weight of its loss."""
        samples, worst = self._watch.samples, 0.0
        found = [layout for layout in use.step.outputs if layout is not None]
        for number, plain in self.plain[use].items():
            rows = found[number].first(plain, samples).flatten(1).double().square().sum(1)
            other = found[number].first(self.weighted[use][number], samples)
            weighted = other.flatten(1).double().square().sum(1)
            expected = rows * self.weights.square().to(rows.device)
            # Python's ``max`` would pass over NaN.
            share = ((weighted - expected).abs() / (expected + 1e-300)).nan_to_num(torch.inf)
            # Denormal numbers are rounded by far more than others, and tell nothing.
            share[torch.maximum(rows, weighted) <= _faint(plain) ** 2] = 0
            worst = max(worst, float(share.max()))
        return worst


def _faint(gradient: Tensor) -> float:
    """Return the size up to which entries tell nothing; half precision needs its denormal ones."""
    return 0.0 if gradient.dtype == torch.float16 else _FAINT * torch.finfo(gradient.dtype).tiny


def settled(use: Use, rows: Rows, steps: list[Step], coarseness: float) -> bool:
    """Settle where the samples of a use are, if its gradients allow it.

    Args:
        use: Its gradients have arrived.
        rows: What arrived.
        steps: What is known of it, in each pass.
        coarseness: Of the numbers that the model computes with.
    """
    if use.spoilt:
        return False
    found: list[tuple[float, Layout]] = []
    # What was settled on before comes first, and is kept if nothing is better.
    for layout in sorted(use.step.choices, key=lambda choice: choice not in use.step.outputs):
        for step in steps:
            settle(step, layout)
        found.append((rows.disorder(use), layout))
    worst, best = min(found, key=lambda each: each[0])
    for step in steps:
        settle(step, best)
    fine = coarseness <= torch.finfo(torch.float32).eps
    return worst <= (_DISORDER if fine else _DISORDER_OF_HALF)


def measurable(use: Use, steps: list[Step], coarseness: float) -> bool:
    """Say whether a use can be measured by its rule, or else by running it again.

    Args:
        use: Its gradients have arrived.
        steps: What is known of it, in each pass.
        coarseness: Of the numbers that the model computes with.
    """
    if use.overwritten():
        return False
    try:
        if use.step.rule is not None:
            use.shares(fused=False)
            return True
    except (NotImplementedError, RuntimeError, IndexError, KeyError, TypeError, ValueError):
        # Not what the rule was made for, such as a weight of another shape.
        for step in steps:
            step.rule = None
    return _runs_again(use, allowed(1e-3, coarseness))


def _runs_again(use: Use, rounding: float) -> bool:
    """Say whether a function gives for single samples what it gave for all of them."""
    layouts = [layout for layout in use.step.outputs if layout is not None]
    try:
        for sample in (0, use.samples - 1):
            _, again = use.again(sample)
            for layout, whole, alone in zip(layouts, use.results, again, strict=True):
                part = layout.one(whole, sample, use.samples)
                if part.shape != alone.shape:
                    return False
                if bool(differ(part, alone, rounding * largest(part)).any()):
                    return False
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True

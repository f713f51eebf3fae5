"""Turn gradients into squared norms the moment they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steepest.gradnorm.backward.components import Squares, group
from steepest.gradnorm.backward.scaling import rescaled, scales_of
from steepest.gradnorm.measure.routes import Routes
from steepest.gradnorm.watch.sources import roots_of
from steepest.gradnorm.watch.uses import Phase, Use
from steepest.gradnorm.watch.watch import Watch

Observer = Callable[[Use, Callable[[], None]], None]
"""Is given each use with the work that measures it, and has to do that work."""


class Meter:
    """Measures the uses of one forward pass, for one loss after the other.

    Args:
        watch: The forward pass.
        routes: Chooses among exact routes.
        observer: Looks on, if given.

    Attributes:
        phase: The purpose of arriving gradients.
        squares: The squared norms [N] found so far, by parameter.
        missed: The parameters that this cannot speak for.
    """

    def __init__(self, watch: Watch, routes: Routes, observer: Observer | None = None) -> None:
        self._watch, self._routes, self._observer = watch, routes, observer
        self._components = group(watch.sources)
        self._keep = False
        self.phase: Phase = "forward"
        self.squares: Squares = {}
        self.missed: set[nn.Parameter] = set()
        for use in watch.uses:
            use.listener = self

    def measure_all(
        self,
        values: list[Tensor],
        outputs: Any,  # noqa: ANN401
    ) -> tuple[list[Squares], set[nn.Parameter]]:
        """Measure several losses of one forward pass.

        Args:
            values: The losses, each [N].
            outputs: The model's output.

        Returns:
            Squared norms [N] by parameter for each loss, and who has none.
        """
        found: list[Squares] = []
        missed: set[nn.Parameter] = set()
        for index, value in enumerate(values):
            squares: Squares = {}
            if value.requires_grad:
                self.phase = "ignore"
                squares, lost = self._sent(value, outputs, keep=index + 1 < len(values))
                missed |= lost
            found.append(squares)
        # A parameter that fell out for one loss is measured by the loop for all of them.
        return [{p: s for p, s in squares.items() if p not in missed} for squares in found], missed

    def _sent(
        self,
        value: Tensor,
        outputs: Any,  # noqa: ANN401
        *,
        keep: bool,
    ) -> tuple[Squares, set[nn.Parameter]]:
        """Measure one of the losses [N]."""
        scales = scales_of(value, outputs)
        loss = (value * scales.to(value.dtype)).sum()
        squares, missed = self.measure(loss, keep=keep)
        return rescaled(squares, scales), missed

    def measure(self, loss: Tensor, *, keep: bool) -> tuple[Squares, set[nn.Parameter]]:
        """Send one loss back; return squared norms [N], and who has none.

        Args:
            loss: A number.
            keep: Whether another loss follows on the same forward pass.
        """
        self.squares, self.missed, self._keep = {}, set(), keep
        for component in self._components.values():
            component.pending = 0
        for use in self._watch.uses:
            use.gradients = {}
            for source in use.sources:
                self._components[source].pending += 1
        leaves = self._watch.leaves()
        if not leaves:
            return {}, set()
        self.phase = "measure"
        found: Sequence[Tensor | None] = torch.autograd.grad(
            loss, leaves, retain_graph=keep, allow_unused=True
        )
        self.phase = "ignore"
        for use in self._watch.uses:
            if use.listening > 1 and use.gradients:
                self._observe(use)
        for component in self._components.values():
            self.squares.update(component.take(self._routes))
        stray = {id(leaf) for leaf, g in zip(leaves, found, strict=True) if g is not None}
        for source in self._watch.sources:
            if id(source.tensor) in stray:
                self.missed |= source.roots()
        return {p: s for p, s in self.squares.items() if p not in self.missed}, self.missed

    def arrived(self, use: Use) -> None:
        """Measure a use whose only result has got its gradient."""
        if self.phase == "measure" and use.listening == 1:
            self._observe(use)

    def _observe(self, use: Use) -> None:
        if self._observer is None:
            self._reduce(use)
        else:
            self._observer(use, lambda: self._reduce(use))

    def _reduce(self, use: Use) -> None:
        self._routes.place = use.place
        if use.spoilt or use.overwritten():
            self.missed |= roots_of(use.sources)
            return
        self._routes.taken.pop(use.place, None)
        shares = use.shares(fused=self._routes.kernels and not self._routes.traced)
        use.gradients = {}
        if not self._keep:
            use.release()
        for source, share in shares:
            self._components[source].add(source, share)
        # One by one, as a call may take the same parameter twice.
        for source in use.sources:
            component = self._components[source]
            component.pending -= 1
            if component.pending == 0:
                self.squares.update(component.take(self._routes))

"""Results of watched calls, tied to something that a gradient reaches, so that they report."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from steepest.gradnorm.reach import Reach
from steepest.gradnorm.uses import Use


class Anchors:
    """Lets a graph start at results where there is none.

    Args:
        reach: Is told what leads to a leaf.
        recording: Whether the pass is recorded, so that results are kept.
    """

    def __init__(self, reach: Reach, *, recording: bool) -> None:
        self._reach, self._recording = reach, recording
        self._zeros: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def leaves(self) -> list[Tensor]:
        """Return the leaves that results were tied to."""
        return list(self._zeros.values())

    def clear(self) -> None:
        """Let go of the graph."""
        self._zeros.clear()

    def tie(self, use: Use, result: Any) -> Any:  # noqa: ANN401
        """Have the results of a use report; return what the model goes on with."""
        if isinstance(result, Tensor):
            return self._tied(use, result, alone=True)
        floats = [v for v in pytree.tree_leaves(result) if _is_float(v)]
        alone = len(floats) == 1
        return pytree.tree_map(
            lambda v: self._tied(use, v, alone=alone) if _is_float(v) else v, result
        )

    def _tied(self, use: Use, value: Tensor, *, alone: bool) -> Tensor:
        if not value.is_floating_point():
            return value
        if use.step.anchors[use.listening]:
            # The sum is no leaf, so that an in-place activation may follow.
            value = value + self._zero(value)
            if self._recording:
                self._reach.add(value)
        elif not alone or (value._is_view() and (self._recording or use.step.overwritten)):  # noqa: SLF001
            # One result may be made of another, whose own node would hear of both. And who writes
            # into a view goes round its node.
            value = value.clone()
        use.listen(value, keep=self._recording)
        return value

    def _zero(self, like: Tensor) -> Tensor:
        key = (like.dtype, like.device)
        if key not in self._zeros:
            zero = torch.zeros((), dtype=like.dtype, device=like.device, requires_grad=True)
            self._zeros[key] = zero
            if self._recording:
                self._reach.add(zero)
        return self._zeros[key]


def _is_float(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Tensor) and value.is_floating_point()

"""Whether a gradient that starts at one tensor would arrive at another."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

_WALKED = 64
"""So many steps from losses to logits are looked at."""


class Reach:
    """Knows which nodes of a graph lead to certain leaves."""

    def __init__(self) -> None:
        # Nodes are kept, so that none can take the place of another.
        self._leads: dict[Node, bool] = {}

    def add(self, leaf: Tensor) -> None:
        """Count a leaf, or any result, among those to be reached."""
        self._leads[get_gradient_edge(leaf).node] = True

    def __call__(self, tensor: Tensor) -> bool:
        """Say whether a gradient that starts here would arrive at a leaf."""
        if not tensor.requires_grad:
            return False
        start = get_gradient_edge(tensor).node
        stack = [start]
        while stack:
            node = stack[-1]
            if node in self._leads:
                stack.pop()
                continue
            below = [n for n, _ in node.next_functions if n is not None]
            if any(self._leads.get(n, False) for n in below):
                self._leads[node] = True
            elif unknown := [n for n in below if n not in self._leads]:
                stack.extend(unknown[:1])
                continue
            else:
                self._leads[node] = False
            stack.pop()
        return self._leads[start]


def depends_on(results: Iterable[Tensor], leaves: Iterable[Tensor]) -> bool:
    """Say whether some result would send a gradient to one of the leaves."""
    reach = Reach()
    for leaf in leaves:
        reach.add(leaf)
    return any(reach(result) for result in results)


def only_through(result: Tensor, gate: Tensor) -> bool:
    """Say whether all that a result would send a gradient to lies behind another tensor.

    Args:
        result: Was made of the other one, and perhaps of more.
        gate: No leaf.
    """
    start, end = result.grad_fn, gate.grad_fn
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node is None or len(seen) > _WALKED:
            return False
        below = [edge for edge in node.next_functions if edge[0] is not None]
        if not below:
            return False  # A leaf.
        for following, place in below:
            if following is end:
                if place != gate.output_nr:
                    return False
            elif following not in seen:
                seen.add(following)
                waiting.append(following)
    return True

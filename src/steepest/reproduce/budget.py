"""The paper's budgets: a tenth of the labels to begin with, a twentieth more in each cycle."""

from __future__ import annotations


def share_of(cycle: int) -> int:
    """Return the labels of a cycle in per cent of all, in the paper's protocol."""
    return 10 + 5 * cycle

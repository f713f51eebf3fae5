"""The paper's protocol: strategies and labels per cycle."""

from __future__ import annotations

FIGURE_METHODS = (
    "random",
    "mc-dropout",
    "qbc",
    "core-set",
    "ll4al",
    "vaal",
    "sraal",
    "core-gcn",
    "expected-gradnorm",
    "entropy-gradnorm",
)
"""Strategies of the learning curves."""

TABLE_METHODS = (
    "mc-dropout",
    "core-set",
    "vaal",
    "ll4al",
    "sraal",
    "expected-gradnorm",
    "entropy-gradnorm",
)
"""Strategies of the accuracy tables on CIFAR-10."""


MENDED = ("vaal", "sraal")
"""Strategies whose published losses have faults that are mended unless ``published`` is set."""


def share_of(cycle: int) -> int:
    """Return the labels of a cycle in per cent of all: a tenth, and then a twentieth more each."""
    return 10 + 5 * cycle

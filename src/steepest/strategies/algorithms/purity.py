"""The largest balls that hold one kind of row."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.seeds import generator
from steepest.strategies.algorithms.distances import squared_tiles


def pure_radius(
    rows: Tensor, labels: Tensor, purity: float, seed: int, *, samples: int = 4096
) -> float:
    """Return the largest radius at which enough balls hold one label alone.

    The open ball around a row is pure as long as its radius is no more than the distance to the
    nearest row of another label, so the answer is a quantile of those distances.

    Args:
        rows: [N, D].
        labels: [N]; whole numbers.
        purity: Share of balls that have to be pure, more than 0 and at most 1.
        seed: Decides which rows the balls are drawn around.
        samples: How many these are at most; rows inside the balls are looked for among all.

    Returns:
        The radius, more than 0. If all labels are equal, no ball is ever impure: then the
        largest distance between a drawn row and any other.
    """
    drawn = torch.randperm(len(rows), generator=generator(seed, "purity"))[:samples]
    drawn = drawn.to(rows.device)
    others = rows.new_full((len(drawn),), torch.inf)
    farthest = rows.new_zeros(len(drawn))
    for part, columns, table in squared_tiles(rows[drawn], rows):
        farthest[part] = torch.maximum(farthest[part], table.amax(1))
        same = labels[drawn[part], None] == labels[None, columns]
        others[part] = torch.minimum(others[part], table.masked_fill_(same, torch.inf).amin(1))
    ordered = others.sort().values
    # Rounded first: (1 − 0.95) · 100 is a little more than 5.
    impure = int(round((1 - purity) * len(ordered), 9))
    squared = float(ordered[min(impure, len(ordered) - 1)])
    squared = squared if squared < torch.inf else float(farthest.max())
    return float(squared**0.5) if squared > 0 else 1.0

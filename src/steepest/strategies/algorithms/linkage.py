"""Average linkage: clusters that grow together from the bottom up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tree:
    """Merges of a hierarchical clustering, with their distances.

    Attributes:
        joined: A leaf of either cluster [M − 1, 2].
        heights: Mean distance of their members [M − 1]; never less than inside either.
    """

    joined: npt.NDArray[np.intp]
    heights: Floats


def average_linkage(rows: Floats, weights: Floats | None = None) -> Tree:
    """Join the two nearest clusters until one is left; distance is the members' mean.

    By chains of nearest neighbours: exact, in O(M²) time once the distances are there. Takes a
    table of M × M distances (200 MB for 5000 rows), so it is for thousands of rows.

    Args:
        rows: [M, D].
        weights: How many members each row stands for [M]; one by default.
    """
    between = _distances(np.asarray(rows, dtype=np.float64))
    np.fill_diagonal(between, np.inf)
    count = len(between)
    weight = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64).copy()
    inside = np.zeros(count)
    joined = np.zeros((max(0, count - 1), 2), dtype=np.intp)
    heights = np.zeros(max(0, count - 1))
    live = np.ones(count, dtype=bool)
    chain: list[int] = []
    for at in range(count - 1):
        if not chain:
            chain.append(int(live.argmax()))
        gone, kept = _follow(chain, between)
        # Exact means never fall below those inside; rounded ones may.
        height = max(between[gone, kept], inside[gone], inside[kept])
        joined[at], heights[at], inside[kept] = (gone, kept), height, height
        _join(between, weight, gone, kept)
        live[gone] = False
    return Tree(joined, heights)


def cut(
    tree: Tree, *, height: float | None = None, clusters: int | None = None
) -> npt.NDArray[np.intp]:
    """Return the cluster of each leaf [M], numbered in the order of their first leaves.

    Args:
        tree: From ``average_linkage``.
        height: Join what is no farther apart than this on average.
        clusters: Or join until so many are left.
    """
    order = np.argsort(tree.heights, kind="stable")
    if height is not None:
        order = order[tree.heights[order] <= height]
    if clusters is not None:
        order = order[: max(0, len(tree.heights) + 1 - clusters)]
    parents = list(range(len(tree.heights) + 1))
    for a, b in tree.joined[order].tolist():
        parents[_root(parents, a)] = _root(parents, b)
    roots = [_root(parents, leaf) for leaf in range(len(parents))]
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(root, len(numbers)) for root in roots], dtype=np.intp)


def _distances(rows: Floats) -> Floats:
    rows = rows - rows.mean(0)
    lengths = (rows * rows).sum(1)
    squared = rows @ rows.T
    squared *= -2
    squared += lengths[:, None]
    squared += lengths[None, :]
    np.maximum(squared, 0, out=squared)
    return np.sqrt(squared, out=squared)


def _follow(chain: list[int], between: Floats) -> tuple[int, int]:
    """Go from cluster to nearest cluster until two are nearest to each other; take them off."""
    while True:
        last = chain[-1]
        near = int(between[last].argmin())
        # Of equally near ones the one before, or the chain would run in circles.
        if len(chain) > 1 and between[last, chain[-2]] <= between[last, near]:
            near = chain[-2]
            del chain[-2:]
            return last, near
        chain.append(near)


def _join(between: Floats, weight: Floats, gone: int, kept: int) -> None:
    total = weight[gone] + weight[kept]
    mean = (weight[gone] * between[gone] + weight[kept] * between[kept]) / total
    mean[[gone, kept]] = np.inf
    between[kept] = between[:, kept] = mean
    between[gone] = between[:, gone] = np.inf
    weight[kept] = total


def _root(parents: list[int], leaf: int) -> int:
    while parents[leaf] != leaf:
        parents[leaf] = parents[parents[leaf]]
        leaf = parents[leaf]
    return leaf

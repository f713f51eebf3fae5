"""Average linkage against the obvious algorithm and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from steepest.strategies.algorithms.linkage import average_linkage, cut


def draw(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 3))


def partition(labels):
    return {frozenset(np.flatnonzero(labels == label)) for label in set(labels.tolist())}


def slow_clusters(rows, height):
    """Join the two nearest groups until they are too far apart."""
    groups = [[i] for i in range(len(rows))]
    while len(groups) > 1:
        apart = {
            (a, b): np.mean(
                [np.linalg.norm(rows[i] - rows[j]) for i in groups[a] for j in groups[b]]
            )
            for a in range(len(groups))
            for b in range(a)
        }
        a, b = min(apart, key=apart.get)
        if apart[a, b] > height:
            break
        groups[b] += groups.pop(a)
    return {frozenset(group) for group in groups}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("height", [0.0, 0.8, 1.5, 100.0])
def test_a_cut_joins_what_is_no_farther_apart_on_average(seed, height):
    rows = draw(14, seed)
    found = cut(average_linkage(rows), height=height)
    assert partition(found) == slow_clusters(rows, height)


@pytest.mark.parametrize("seed", range(3))
def test_heights_and_clusters_are_those_of_scipy(seed):
    rows = draw(120, seed)
    tree, theirs = average_linkage(rows), linkage(rows, "average")
    np.testing.assert_allclose(np.sort(tree.heights), theirs[:, 2], rtol=1e-9)
    # SciPy 1.12 finds no more than 118 of 120.
    for count in (1, 2, 9, 60, 118):
        wanted = fcluster(theirs, count, "maxclust")
        assert partition(cut(tree, clusters=count)) == partition(wanted)
    assert len(partition(cut(tree, clusters=120))) == 120


def test_a_weight_stands_for_so_many_equal_rows():
    rows, weights = draw(12), np.array([1, 3, 2] * 4)
    tree, theirs = average_linkage(rows, weights), average_linkage(np.repeat(rows, weights, 0))
    joined = np.sort(theirs.heights)
    np.testing.assert_allclose(np.sort(tree.heights), joined[joined > 1e-6], rtol=1e-6)


def test_ties_and_equal_rows_end_in_one_cluster():
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2)
    tree = average_linkage(np.concatenate([grid, grid]))
    assert len(tree.heights) == 49
    assert set(cut(tree, clusters=1)) == {0}
    # Equal rows are together from the beginning.
    labels = cut(tree, clusters=25)
    assert labels[:25].tolist() == labels[25:].tolist()


def test_one_row_is_one_cluster():
    assert cut(average_linkage(draw(1)), clusters=1).tolist() == [0]
    assert cut(average_linkage(draw(1)), height=1.0).tolist() == [0]


def test_clusters_are_numbered_by_their_first_rows():
    rows = np.array([[5.0], [0.0], [5.1], [0.1], [9.0]])
    assert cut(average_linkage(rows), clusters=3).tolist() == [0, 1, 0, 1, 2]

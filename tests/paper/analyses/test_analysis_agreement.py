"""Table 2: every reading is there, and none of them says more than its rankings."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from analysis_nets import TASK, net, points, trained

from steepest.core.seeds import derive
from steepest.core.tables import to_table
from steepest.paper.analyses import (
    agreement_grid,
    find_directions,
    influences_along,
    order_by_distance,
    sample_norms,
)
from steepest.paper.analyses.agreement import Targets
from steepest.paper.analyses.directions import Direction
from steepest.paper.analyses.ranking import highest
from steepest.strategies.algorithms import rank_correlation

DAMPINGS = (0.01, 1.0)
LOSSES = ("true-label", "entropy")
NORMS = ("l2", "tensor-sum")
IDS = [f"p{i}" for i in range(50)]


@pytest.fixture(scope="module")
def scene():
    learnt, more, test, pool = points(20), points(35), points(25, seed=1), points(50, seed=2)
    now = trained(net(), learnt)
    later = trained(now, more)
    targets = {
        which: influences_along(
            model, TASK, pool, find_directions(model, TASK, own, test, dampings=DAMPINGS)
        )
        for which, model, own in (("T(c)", now, learnt), ("T(c+1)", later, more))
    }
    return targets, sample_norms(now, TASK, pool, LOSSES)


@pytest.fixture(scope="module")
def cells(scene):
    return agreement_grid(*scene, IDS, cycle=0, k=10, seed=5)


def test_the_grid_is_complete(cells):
    curved = list(product(("gauss-newton", "hessian"), DAMPINGS))
    wanted = {
        (which, curvature, damping, target_loss, sign, loss, norm)
        for which in ("T(c)", "T(c+1)")
        for curvature, damping in [*curved, ("none", None)]
        for target_loss in LOSSES
        for sign in ("signed", "absolute")
        for loss in LOSSES
        for norm in NORMS
    }
    found = [tuple(vars(cell.reading).values()) for cell in cells]
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_a_cell_holds_the_overlap_and_correlation_of_its_two_rankings(scene, cells):
    targets, criterion = scene
    one = targets["T(c+1)"][1]
    cell = next(
        cell for cell in cells
        if cell.reading.model == "T(c+1)" and cell.reading.sign == "absolute"
        and cell.reading.curvature == one.direction.curvature
        and cell.reading.damping == one.direction.damping
        and cell.reading.target_loss == one.direction.loss
        and (cell.reading.criterion_loss, cell.reading.norm) == ("entropy", "l2")
    )  # fmt: skip
    ties = derive(5, "table 2 ties", 0)
    tops = [highest(v, IDS, 10, ties) for v in (np.abs(one.values), criterion["entropy", "l2"])]
    assert cell.overlap == len(tops[0] & tops[1])
    expected = rank_correlation(np.abs(one.values), criterion["entropy", "l2"])
    assert cell.rank_correlation == expected
    assert cell.chance == 2.0


def test_influences_are_products_with_each_sample_s_gradient(scene):
    learnt, test, pool = points(20), points(25, seed=1), points(4, seed=2)
    model = trained(net(), learnt)
    found = influences_along(
        model, TASK, pool, find_directions(model, TASK, learnt, test, dampings=[0.1])
    )
    for one in found:
        for row in range(4):
            outputs = model(pool.inputs[row : row + 1])
            loss = (
                TASK.entropy(outputs)
                if one.direction.loss == "entropy"
                else TASK.training_loss(outputs, pool.targets[row : row + 1])
            )
            slopes = torch.autograd.grad(loss.sum(), list(model.parameters()))
            pairs = zip(slopes, one.direction.vector.values(), strict=True)
            assert one.values[row] == pytest.approx(float(sum((g * s).sum() for g, s in pairs)))


def test_the_criterion_agrees_with_itself_in_full():
    values = np.linspace(1, 2, 50)
    direction = Direction("none", math.inf, "entropy", {}, {"converged": True})
    (signed, absolute) = agreement_grid(
        {"T(c)": [Targets(direction, -values)]}, {("entropy", "l2"): values}, IDS,
        cycle=2, k=10, seed=0,
    )  # fmt: skip
    assert (signed.overlap, absolute.overlap) == (0, 10)
    assert signed.rank_correlation == pytest.approx(-1)
    assert absolute.rank_correlation == pytest.approx(1)


def test_a_system_without_a_solution_stays_in_the_grid():
    direction = Direction("hessian", 0.0, "entropy", None, {"converged": False, "note": "none"})
    cells = agreement_grid(
        {"T(c)": [Targets(direction, None)]}, {("entropy", "l2"): np.arange(50.0)}, IDS,
        cycle=0, k=10, seed=0,
    )  # fmt: skip
    assert [(cell.overlap, cell.sound) for cell in cells] == [(None, False)] * 2
    assert order_by_distance(cells, {0: 0.9}) == []


def test_cells_are_ready_for_json(cells):
    text = json.dumps([to_table(cell) for cell in cells], allow_nan=False)
    assert "vector" not in text


def test_the_nearest_reading_is_found_afterwards_among_all(cells):
    found = order_by_distance(cells, {0: 0.9})
    assert len(found) == len(cells)
    assert [one.distance for one in found] == sorted(one.distance for one in found)
    assert found[0].distance == min(abs(cell.overlap / 10 - 0.9) for cell in cells)
    assert all(one.nearest == (one.distance == found[0].distance) for one in found)
    assert "λ" in found[0].reading.describe()


def test_a_reading_is_as_far_away_as_its_cycles_are_on_average(cells):
    near, far = cells[0], cells[-1]
    made = [
        replace(far, cycle=0, overlap=9, sound=True),
        replace(near, cycle=0, overlap=4, sound=True),
        replace(near, cycle=1, overlap=8, sound=False),
        replace(near, cycle=2, overlap=0, sound=True),
    ]
    found = order_by_distance(made, {0: 0.5, 1: 1.0})
    assert [one.reading for one in found] == [near.reading, far.reading]
    numbers = [(one.share, one.published, one.distance) for one in found]
    assert numbers == [pytest.approx((0.6, 0.75, 0.15)), pytest.approx((0.9, 0.5, 0.4))]
    assert [(one.cycles, one.sound, one.nearest) for one in found] == [
        (2, False, True),
        (1, True, False),
    ]


def test_cycles_that_were_not_published_are_not_compared(cells):
    assert order_by_distance(cells, {3: 0.9}) == []

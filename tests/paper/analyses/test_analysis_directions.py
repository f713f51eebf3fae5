"""Directions of the test samples' gradient, by loss, curvature and damping."""

from __future__ import annotations

import math

import pytest
from analysis_nets import TASK, net, points, trained

from steepest.errors import InputError
from steepest.influence import summed_gradient, vectors
from steepest.paper.analyses import find_directions
from steepest.paper.analyses.directions import CURVATURES, make_curvature

DAMPINGS = (1e-2, 0.1, 1.0)


@pytest.fixture(scope="module")
def scene():
    learnt, test = points(30), points(20, seed=1)
    model = trained(net(), learnt)
    return model, learnt, test, summed_gradient(model, TASK, test)


def close(a, b, rtol):
    difference = vectors.axpy(-1.0, b, a)
    return vectors.norm(difference) <= rtol * vectors.norm(b)


def test_directions_cover_every_loss_curvature_and_damping(scene):
    model, learnt, test, _ = scene
    found = find_directions(model, TASK, learnt, test, dampings=DAMPINGS)
    keys = {(d.loss, d.curvature, d.damping) for d in found}
    wanted = {
        (loss, curvature, damping)
        for loss in ("true-label", "entropy")
        for curvature in CURVATURES
        for damping in DAMPINGS
    }
    limits = {(loss, "none", math.inf) for loss in ("true-label", "entropy")}
    assert keys == wanted | limits
    assert len(found) == len(keys)
    assert all("residual" in d.diagnostics for d in found)


def test_much_damping_leads_to_the_limit_without_curvature(scene):
    model, learnt, test, _ = scene
    limit, strong = find_directions(
        model, TASK, learnt, test, losses=["entropy"], curvatures=["gauss-newton"], dampings=[1e6]
    )
    assert limit.curvature == "none"
    assert close(vectors.scaled(1e6, strong.vector), limit.vector, rtol=1e-4)


def test_the_hessian_of_the_loss_itself_can_be_asked_for(scene):
    model, learnt, _, v = scene
    own, trains = (
        make_curvature(name, model, TASK, learnt, "entropy").product(v)
        for name in ("hessian-of-loss", "hessian")
    )
    assert not close(own, trains, rtol=1e-2)
    with pytest.raises(InputError, match="unknown curvature"):
        make_curvature("fisher", model, TASK, learnt, "entropy")

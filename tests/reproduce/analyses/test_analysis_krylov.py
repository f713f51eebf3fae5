"""One space for all dampings gives what a solver of its own gives for each."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from analysis_nets import TASK, net, points, trained

from steepest.errors import InputError
from steepest.influence import (
    gauss_newton,
    hessian,
    solve_cg,
    solve_dense,
    summed_gradient,
    vectors,
)
from steepest.reproduce.analyses import find_directions, span_krylov
from steepest.reproduce.analyses.directions import CURVATURES, make_curvature

DAMPINGS = (1e-2, 0.1, 1.0)


@pytest.fixture(scope="module")
def scene():
    learnt, test = points(30), points(20, seed=1)
    model = trained(net(), learnt)
    return model, learnt, test, summed_gradient(model, TASK, test)


def close(a, b, rtol=1e-6):
    difference = vectors.axpy(-1.0, b, a)
    return vectors.norm(difference) <= rtol * vectors.norm(b)


def test_every_damping_has_the_dense_solution(scene):
    model, learnt, _, v = scene
    curvature = gauss_newton(model, TASK, learnt, weight_decay=1e-3)
    space = span_krylov(curvature, v, DAMPINGS, tolerance=1e-9, most_iterations=60)
    for damping in DAMPINGS:
        found = space.solve(damping)
        assert close(found.vector, solve_dense(curvature, v, damping=damping).vector)
        assert found.converged
        assert found.residual <= 2e-9
        assert found.effective_damping == pytest.approx(damping + 1e-3)


def test_so_many_products_give_what_conjugate_gradients_give(scene):
    model, learnt, _, v = scene
    curvature = gauss_newton(model, TASK, learnt)
    space = span_krylov(curvature, v, DAMPINGS, tolerance=1e-12, most_iterations=5)
    for damping in DAMPINGS:
        found = space.solve(damping)
        steps = solve_cg(curvature, v, damping=damping, tolerance=1e-12, most_iterations=5)
        assert close(found.vector, steps.vector)
        assert found.iterations == 5
        assert found.residual == pytest.approx(space.residual(damping), rel=1e-6)
        assert not found.converged


def test_all_dampings_cost_the_products_of_one(scene, monkeypatch):
    model, learnt, _, v = scene
    curvature = gauss_newton(model, TASK, learnt)
    made = []
    product = curvature.product
    monkeypatch.setattr(curvature, "product", lambda *a: made.append(1) or product(*a))
    space = span_krylov(curvature, v, DAMPINGS, tolerance=1e-12, most_iterations=7)
    assert len(made) == 7
    space.solve(0.1)
    assert len(made) == 8


def test_an_indefinite_matrix_is_said_to_be_one():
    model, learnt = net(seed=3), points(30)
    curvature = hessian(model, TASK, learnt)
    v = summed_gradient(model, TASK, points(20, seed=1))
    smallest = solve_dense(curvature, v, damping=1e-9).smallest_eigenvalue
    assert smallest < 0
    space = span_krylov(curvature, v, [0.0], tolerance=1e-8, most_iterations=80)
    found = space.solve(-smallest / 2)
    assert found.indefinite
    assert not found.converged
    assert found.smallest_eigenvalue == pytest.approx(smallest / 2, rel=1e-3)
    assert space.solve(-2 * smallest).converged


def test_a_gradient_of_zero_has_a_solution_of_zero(scene):
    model, learnt, _, v = scene
    nothing = vectors.zeros_like(v)
    found = span_krylov(gauss_newton(model, TASK, learnt), nothing, DAMPINGS).solve(0.1)
    assert vectors.norm(found.vector) == 0
    assert found.converged


def test_a_damping_without_an_inverse_is_refused(scene):
    model, learnt, _, v = scene
    curvature = gauss_newton(model, TASK, learnt)
    space = span_krylov(curvature, v, [0.1], most_iterations=4)
    singular = dataclasses.replace(space, small=torch.diag(torch.tensor([0.0, 1, 2, 3]).double()))
    assert singular.residual(0.0) == math.inf
    with pytest.raises(InputError, match="no inverse: use more damping"):
        singular.solve(0.0)
    with pytest.raises(InputError, match="at least 0"):
        space.solve(-1.0)
    with pytest.raises(InputError, match="between 0 and 1"):
        span_krylov(curvature, v, [0.1], tolerance=2.0)


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

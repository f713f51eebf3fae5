"""One space for all dampings gives what a solver of its own gives for each."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from influence_nets import TASK, close, mlp, rows

from steepest.errors import InputError
from steepest.influence import (
    gauss_newton,
    hessian,
    solve_cg,
    solve_dense,
    span_krylov,
    summed_gradient,
    vectors,
)

DAMPINGS = (1e-2, 0.1, 1.0)
QUIET = {"progress": False}


@pytest.fixture
def scene():
    model = mlp(hidden=6)
    return gauss_newton(model, TASK, rows(30)), summed_gradient(model, TASK, rows(20, seed=1))


def test_every_damping_has_the_dense_solution():
    model = mlp(hidden=6)
    curvature = gauss_newton(model, TASK, rows(30), weight_decay=1e-3)
    v = summed_gradient(model, TASK, rows(20, seed=1))
    space = span_krylov(curvature, v, DAMPINGS, tolerance=1e-9, most_iterations=60, **QUIET)
    for damping in DAMPINGS:
        found = space.solve(damping)
        assert close(found.vector, solve_dense(curvature, v, damping=damping, **QUIET).vector, 1e-6)
        assert found.converged
        assert found.residual <= 2e-9
        assert found.effective_damping == pytest.approx(damping + 1e-3)


def test_so_many_products_give_what_conjugate_gradients_give(scene):
    curvature, v = scene
    few = {"tolerance": 1e-12, "most_iterations": 5, **QUIET}
    space = span_krylov(curvature, v, DAMPINGS, **few)
    for damping in DAMPINGS:
        found = space.solve(damping)
        assert close(found.vector, solve_cg(curvature, v, damping=damping, **few).vector, 1e-6)
        assert found.iterations == 5
        assert found.residual == pytest.approx(space.residual(damping), rel=1e-6)
        assert not found.converged


def test_all_dampings_cost_the_products_of_one(scene, monkeypatch):
    curvature, v = scene
    made = []
    product = curvature.product
    monkeypatch.setattr(curvature, "product", lambda *a: made.append(1) or product(*a))
    space = span_krylov(curvature, v, DAMPINGS, tolerance=1e-12, most_iterations=7, **QUIET)
    assert len(made) == 7
    space.solve(0.1)
    assert len(made) == 8


def test_an_indefinite_matrix_is_said_to_be_one():
    model = mlp(hidden=6)
    curvature = hessian(model, TASK, rows(30))
    v = summed_gradient(model, TASK, rows(20, seed=1))
    smallest = solve_dense(curvature, v, damping=1e-9, **QUIET).smallest_eigenvalue
    assert smallest < 0
    space = span_krylov(curvature, v, [0.0], tolerance=1e-8, most_iterations=80, **QUIET)
    found = space.solve(-smallest / 2)
    assert found.indefinite
    assert not found.converged
    assert found.smallest_eigenvalue == pytest.approx(smallest / 2, rel=1e-3)
    assert space.solve(-2 * smallest).converged


def test_a_gradient_of_zero_has_a_solution_of_zero(scene):
    curvature, v = scene
    found = span_krylov(curvature, vectors.zeros_like(v), DAMPINGS, **QUIET).solve(0.1)
    assert vectors.norm(found.vector) == 0
    assert found.converged


def test_a_damping_without_an_inverse_is_refused(scene):
    curvature, v = scene
    space = span_krylov(curvature, v, [0.1], most_iterations=4, **QUIET)
    singular = dataclasses.replace(space, small=torch.diag(torch.tensor([0.0, 1, 2, 3]).double()))
    assert singular.residual(0.0) == math.inf
    with pytest.raises(InputError, match="no inverse: use more damping"):
        singular.solve(0.0)
    endless = dataclasses.replace(
        space, small=torch.diag(torch.tensor([math.inf, 1, 2, 3]).double())
    )
    with pytest.raises(InputError, match="no inverse: use more damping"):
        endless.solve(0.1)
    with pytest.raises(InputError, match="at least 0"):
        space.solve(-1.0)
    with pytest.raises(InputError, match="between 0 and 1"):
        span_krylov(curvature, v, [0.1], tolerance=2.0)


def test_a_basis_that_memory_cannot_hold_is_refused(scene, monkeypatch):
    curvature, v = scene
    monkeypatch.setattr("steepest.influence.krylov.free_bytes", lambda _: 1000)
    with pytest.raises(InputError, match=r"3 vectors of 51 entries do not fit .* fewer iterations"):
        span_krylov(curvature, v, [0.1], most_iterations=3, **QUIET)

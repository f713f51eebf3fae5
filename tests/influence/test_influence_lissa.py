from __future__ import annotations

import pytest
import torch
from influence_nets import TASK, close, mlp, rows

from steepest.influence import (
    dense_matrix,
    gauss_newton,
    solve_dense,
    solve_lissa,
    summed_gradient,
)
from steepest.influence.power import largest_eigenvalue

QUIET = {"progress": False}


@pytest.fixture
def small():
    model, train = mlp(), rows(20)
    curvature = gauss_newton(model, TASK, train, weight_decay=1e-3)
    return curvature, summed_gradient(model, TASK, rows(5, seed=1))


def test_the_damping_of_lissa_is_effective_whatever_the_scale(small):
    curvature, v = small
    for scale in (2.0, 8.0):
        damping = 0.05 * scale
        exact = solve_dense(curvature, v, damping=damping, **QUIET)
        found = solve_lissa(
            curvature, v, damping=damping, scale=scale, tolerance=1e-8, depth=3000, **QUIET
        )
        assert close(found.vector, exact.vector, 1e-6)
        assert found.damping == damping


def test_a_scale_that_is_too_small_is_doubled_until_the_series_converges(small):
    curvature, v = small
    largest = largest_eigenvalue(curvature, iterations=100)
    exact = solve_dense(curvature, v, damping=0.05, **QUIET)
    found = solve_lissa(
        curvature, v, damping=0.05, scale=largest / 5, tolerance=1e-6, depth=2000, **QUIET
    )
    assert "restarts with twice the scale" in found.note
    assert found.converged
    assert close(found.vector, exact.vector, 1e-3)


def test_a_series_that_merely_takes_long_is_no_divergence(small):
    curvature, v = small
    found = solve_lissa(curvature, v, damping=1e-3, depth=300, **QUIET)
    assert "restarts" not in found.note
    assert found.iterations == 300
    assert not found.converged
    assert sorted(found.residuals, reverse=True) == list(found.residuals)


def test_lissa_with_draws_follows_the_seed_and_comes_near(small):
    curvature, v = small
    options = {"damping": 0.5, "batch": 5, "repeats": 4, "depth": 40, **QUIET}
    exact = solve_dense(curvature, v, damping=0.5, **QUIET)
    first, again = (solve_lissa(curvature, v, seed=1, **options) for _ in range(2))
    other = solve_lissa(curvature, v, seed=2, **options)
    assert close(first.vector, again.vector, 1e-15)
    assert not close(first.vector, other.vector, 1e-6)
    assert close(first.vector, exact.vector, 0.25)
    assert "5 examples a step, mean of 4 runs" in first.note


def test_the_largest_eigenvalue_is_that_of_the_matrix(small):
    values = torch.linalg.eigvalsh(dense_matrix(small[0], **QUIET))
    found = largest_eigenvalue(small[0], iterations=200)
    assert found <= float(values[-1]) * (1 + 1e-9)
    assert found == pytest.approx(float(values[-1]), rel=0.02)


def test_divergence_is_noticed_long_before_numbers_overflow(small):
    curvature, v = small
    largest = largest_eigenvalue(curvature, iterations=100)
    found = solve_lissa(curvature, v, damping=0.05, scale=largest / 5, depth=60, **QUIET)
    assert "restarts with twice the scale" in found.note
    assert found.residual < 1

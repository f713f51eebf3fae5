from __future__ import annotations

import pytest
import torch
from influence_nets import TASK, close, mlp, random_vector, rows

from steepest.influence import (
    dense_matrix,
    fit_arnoldi,
    gauss_newton,
    solve_arnoldi,
    summed_gradient,
    vectors,
)

QUIET = {"progress": False}


@pytest.fixture
def small():
    model, train = mlp(), rows(20)
    curvature = gauss_newton(model, TASK, train, weight_decay=1e-3)
    return curvature, summed_gradient(model, TASK, rows(5, seed=1))


def test_arnoldi_over_all_dimensions_is_the_inverse_off_the_null_space():
    model, train = mlp(), rows(4)
    curvature = gauss_newton(model, TASK, train)
    v = random_vector(curvature)
    matrix = dense_matrix(curvature, **QUIET)
    wanted = torch.linalg.pinv(matrix, hermitian=True, rtol=1e-9) @ vectors.flatten(v)
    found = solve_arnoldi(curvature, v, iterations=len(matrix), **QUIET)
    assert close(found.vector, vectors.unflatten(wanted, v), 1e-5)


def test_arnoldi_goes_on_where_an_invariant_space_is_exhausted():
    curvature = gauss_newton(mlp(), TASK, rows(4), weight_decay=0.1)
    matrix = dense_matrix(curvature, **QUIET)
    basis = fit_arnoldi(curvature, iterations=len(matrix), **QUIET)
    ascending = basis.values.sort().values
    assert torch.allclose(ascending, torch.linalg.eigvalsh(matrix), atol=1e-9)
    gram = basis.directions @ basis.directions.T
    assert torch.allclose(gram, torch.eye(len(gram), dtype=gram.dtype), atol=1e-9)


def test_arnoldi_keeps_the_largest_and_drops_the_rest(small):
    curvature, v = small
    values, directions = torch.linalg.eigh(dense_matrix(curvature, **QUIET))
    found = solve_arnoldi(curvature, v, iterations=40, top_k=3, damping=0.05, **QUIET)
    top, flat = directions[:, -3:], vectors.flatten(v)
    wanted = top @ ((top.T @ flat) / (values[-3:] + 0.05))
    assert close(found.vector, vectors.unflatten(wanted, v), 1e-6)
    assert found.residual > 0.01
    assert "within the 3 largest" in found.note


def test_coordinates_in_the_basis_give_influences(small):
    curvature, v = small
    basis = fit_arnoldi(curvature, iterations=40, **QUIET)
    g = random_vector(curvature, seed=3)
    pairwise = float((basis.project(v) * basis.project(g) / basis.values).sum())
    assert pairwise == pytest.approx(vectors.dot(g, basis.solve(v).vector))

from __future__ import annotations

import json

import pytest
import torch
from influence_nets import (
    SEGMENTATION,
    TASK,
    close,
    draw,
    maps,
    mlp,
    pair_of_nets,
    random_vector,
    rows,
    seeded,
    segmenter,
)
from torch import nn

from steepest.errors import InputError
from steepest.influence import (
    Examples,
    dense_matrix,
    gauss_newton,
    hessian,
    solve_arnoldi,
    solve_cg,
    solve_dense,
    solve_lissa,
    summed_gradient,
    vectors,
)
from steepest.influence.dense import solve_matrix

QUIET = {"progress": False}


class Watched:
    """Examples that note every reading."""

    def __init__(self, examples: Examples) -> None:
        self._examples, self.readings = examples, []

    def __len__(self) -> int:
        return len(self._examples)

    def batches(self, size, rows=None):
        self.readings.append((size, rows))
        return self._examples.batches(size, rows)


class Steps:
    """A progress that counts."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    def task(self, description, total):
        from contextlib import nullcontext

        outer = self

        class Step:
            def advance(self, amount=1, note=""):
                outer.done[description] = outer.done.get(description, 0) + amount

        return nullcontext(Step())


@pytest.fixture
def small():
    model, train = mlp(), rows(20)
    curvature = gauss_newton(model, TASK, train, weight_decay=1e-3)
    return curvature, summed_gradient(model, TASK, rows(5, seed=1))


def test_solvers_agree_on_a_small_net(small):
    curvature, v = small
    exact = solve_dense(curvature, v, damping=0.05, **QUIET)
    cg = solve_cg(curvature, v, damping=0.05, tolerance=1e-6, **QUIET)
    lissa = solve_lissa(curvature, v, damping=0.05, tolerance=1e-5, depth=2000, **QUIET)
    arnoldi = solve_arnoldi(curvature, v, damping=0.05, iterations=60, **QUIET)
    for found in (cg, lissa, arnoldi):
        assert close(found.vector, exact.vector, 1e-3)
        assert found.converged
        assert not found.indefinite
        assert found.effective_damping == pytest.approx(0.051)
    assert exact.residual < 1e-12
    assert cg.residual <= 2e-6
    assert lissa.residual <= 2e-5


def test_cg_stops_at_the_tolerance_or_after_the_last_iteration(small):
    curvature, v = small
    found = solve_cg(curvature, v, damping=0.05, **QUIET)
    assert found.residuals[-1] <= 1e-3 < found.residuals[-2]
    assert found.iterations == len(found.residuals) - 1 < 100
    short = solve_cg(curvature, v, damping=1e-6, most_iterations=3, **QUIET)
    assert short.iterations == 3
    assert not short.converged


def test_cg_never_resamples(small):
    watched = Watched(rows(20))
    curvature = gauss_newton(mlp(), TASK, watched, batch_size=8)
    found = solve_cg(curvature, small[1], damping=0.05, **QUIET)
    assert watched.readings == [(8, None)] * (found.iterations + 1)


def test_the_smallest_ritz_value_of_cg_bounds_the_smallest_eigenvalue(small):
    curvature, v = small
    values = torch.linalg.eigvalsh(dense_matrix(curvature, **QUIET))
    found = solve_cg(curvature, v, damping=0.05, tolerance=1e-8, **QUIET)
    assert found.smallest_eigenvalue >= float(values[0]) + 0.05 - 1e-9
    assert found.smallest_eigenvalue <= float(values[-1]) + 0.05


def test_an_indefinite_hessian_is_found_out_and_reported(small):
    v = small[1]
    # Adding to all logits changes nothing: without weight decay there is no inverse.
    curvature = hessian(mlp(), TASK, rows(20), weight_decay=1e-5)
    exact = solve_dense(curvature, v, **QUIET)
    assert exact.indefinite
    assert exact.smallest_eigenvalue < 0
    cg = solve_cg(curvature, v, **QUIET)
    assert cg.indefinite
    assert not cg.converged
    assert cg.smallest_eigenvalue < 0
    assert "use gauss_newton, or more damping" in cg.note
    arnoldi = solve_arnoldi(curvature, v, iterations=60, **QUIET)
    assert arnoldi.indefinite
    assert arnoldi.smallest_eigenvalue == pytest.approx(exact.smallest_eigenvalue)
    lissa = solve_lissa(curvature, v, damping=0.0, depth=20000, **QUIET)
    assert lissa.indefinite
    assert not lissa.converged
    assert vectors.norm(lissa.vector) == 0


def test_enough_damping_makes_an_indefinite_hessian_solvable(small):
    # Adding to all logits changes nothing: without weight decay there is no inverse.
    curvature = hessian(mlp(), TASK, rows(20), weight_decay=1e-5)
    lowest = solve_dense(curvature, small[1], **QUIET).smallest_eigenvalue
    damping = 0.05 - lowest
    exact = solve_dense(curvature, small[1], damping=damping, **QUIET)
    found = solve_cg(curvature, small[1], damping=damping, tolerance=1e-6, **QUIET)
    series = solve_lissa(curvature, small[1], damping=damping, tolerance=1e-5, depth=2000, **QUIET)
    assert not exact.indefinite
    for solution in (found, series):
        assert not solution.indefinite
        assert solution.converged
        assert close(solution.vector, exact.vector, 1e-3)


def test_with_ever_more_damping_the_solution_is_the_gradient(small):
    curvature, v = small
    for solve in (solve_cg, solve_dense, solve_lissa):
        found = solve(curvature, v, damping=1e6, **QUIET)
        assert close(vectors.scaled(1e6, found.vector), v, 1e-3)


def test_solvers_work_on_label_maps():
    model, examples = segmenter(), maps()
    curvature = gauss_newton(model, SEGMENTATION, examples, weight_decay=0.01)
    v = summed_gradient(model, SEGMENTATION, maps(seed=1))
    exact = solve_dense(curvature, v, damping=0.05, **QUIET)
    found = solve_cg(curvature, v, damping=0.05, tolerance=1e-6, **QUIET)
    assert close(found.vector, exact.vector, 1e-4)


def test_single_precision_is_kept_and_is_enough(small):
    model = mlp().float()
    curvature = gauss_newton(model, TASK, rows(20), weight_decay=1e-3)
    v = summed_gradient(model, TASK, rows(5, seed=1))
    found = solve_cg(curvature, v, damping=0.05, **QUIET)
    assert found.vector["0.weight"].dtype == torch.float32
    exact = solve_dense(small[0], small[1], damping=0.05, **QUIET)
    assert close(found.vector, exact.vector, 5e-3)


def test_a_dense_matrix_too_large_is_refused_in_one_line():
    model = seeded(nn.Linear(1500, 3))
    curvature = gauss_newton(model, TASK, Examples(draw(2, 1500), torch.tensor([0, 1])))
    with pytest.raises(InputError, match=r"4503 parameters is too large.*solve_cg") as caught:
        solve_dense(curvature, random_vector(curvature), **QUIET)
    assert "\n" not in str(caught.value)


def test_a_matrix_without_inverse_is_refused_with_the_remedy():
    curvature = gauss_newton(mlp(), TASK, rows(2))
    with pytest.raises(InputError, match="damping above 0"):
        solve_dense(curvature, random_vector(curvature), **QUIET)


@pytest.mark.parametrize(
    ("solve", "options"),
    [
        (solve_cg, {"damping": -1.0}),
        (solve_cg, {"tolerance": 0.0}),
        (solve_cg, {"most_iterations": 0}),
        (solve_lissa, {"damping": 1.0, "scale": 0.5}),
        (solve_lissa, {"damping": 1.0, "depth": 0}),
        (solve_arnoldi, {"iterations": 0}),
        (solve_dense, {"damping": float("nan")}),
    ],
)
def test_options_out_of_range_are_refused(small, solve, options):
    with pytest.raises(InputError):
        solve(*small, **options, **QUIET)


def test_a_gradient_of_0_has_the_solution_0(small):
    curvature, v = small
    for solve in (solve_cg, solve_lissa):
        found = solve(curvature, vectors.zeros_like(v), damping=0.1, **QUIET)
        assert vectors.norm(found.vector) == 0
        assert found.converged


def test_solutions_are_written_as_plain_tables(small):
    found = solve_cg(*small, damping=0.05, **QUIET)
    table = json.loads(json.dumps(found.to_table(), allow_nan=False))
    assert table["solver"] == "cg"
    assert table["curvature"] == "gauss-newton"
    assert table["norm"] == pytest.approx(found.norm)
    assert "vector" not in table
    assert table["seconds"] > 0


def test_solvers_show_progress(small):
    steps = Steps()
    found = solve_cg(*small, damping=0.05, progress=steps)
    solve_arnoldi(*small, iterations=7, progress=steps)
    solve_dense(*small, damping=0.1, progress=steps)
    assert steps.done == {
        "conjugate gradients": found.iterations,
        "Arnoldi": 7,
        "dense curvature": vectors.size(small[1]),
    }


def test_a_solution_says_what_it_was_computed_without():
    old, _ = pair_of_nets()
    curvature = gauss_newton(old, TASK, rows(), layers="no-vectors")
    v = summed_gradient(old, TASK, rows(), layers="no-vectors")
    found = solve_cg(curvature, v, damping=0.1, **QUIET)
    assert found.excluded == ("0.bias", "2.bias")
    assert "double backward" in found.note


def test_a_matrix_of_no_numbers_has_no_inverse():
    matrix = torch.diag(torch.tensor([torch.inf, 1.0, 2.0], dtype=torch.float64))
    with pytest.raises(InputError, match="no inverse"):
        solve_matrix(matrix, torch.ones(3, dtype=torch.float64), 0.1)

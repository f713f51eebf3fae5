"""A.1: the bound holds below the step size, a violation exists beyond."""

from __future__ import annotations

import json

import pytest
import torch

from steepest.core.seeds import generator
from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.paper.analyses import study_descent
from steepest.paper.analyses.descent import LogisticProblem, _take_steps, make_problem


@pytest.fixture(scope="module")
def study():
    return study_descent(points=40, dimensions=4, starts=40)


def test_the_gradient_is_that_of_the_loss():
    problem = make_problem("plane", points=9, dimensions=3, mu=0.2)
    w = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    losses_of(problem, w).mean().backward()
    torch.testing.assert_close(problem.gradient(w.detach()), w.grad)


def losses_of(problem, w):
    margins = problem.y * (problem.x @ w)
    return torch.nn.functional.softplus(-margins) + problem.mu / 2 * w.square().sum()


@pytest.mark.parametrize("kind", ["plane", "balanced"])
def test_no_hessian_leaves_the_interval_from_mu_to_l(kind):
    problem = make_problem(kind, points=30, dimensions=3)
    for scale in (0.0, 0.1, 3.0):
        w = scale * torch.ones(3, dtype=torch.float64)
        found = torch.linalg.eigvalsh(torch.autograd.functional.jacobian(problem.gradient, w))
        assert found[0] >= problem.mu - 1e-12
        assert found[-1] <= problem.smoothness + 1e-12
    at_zero = torch.autograd.functional.jacobian(problem.gradient, torch.zeros(3).double())
    assert torch.linalg.eigvalsh(at_zero)[-1] == pytest.approx(problem.smoothness)


def test_the_norm_falls_with_the_stated_step_and_with_any_below_two_over_l(study):
    assert study.holds
    assert study.holds_up_to_largest
    below = [row for row in study.rows if row.of_largest <= 1]
    assert any(row.of_stated == pytest.approx(1) for row in below)
    assert max(row.worst for row in below) <= 1 + 1e-12


def test_a_violation_is_found_just_beyond_two_over_l(study):
    assert study.violated_beyond
    just = next(r for r in study.rows if r.kind == "balanced" and r.of_largest > 1)
    assert just.of_largest == pytest.approx(1.01)
    assert just.worst > 1
    assert just.grown > 0


def test_the_stated_step_is_smaller_than_needed_by_the_condition_number(study):
    for kind, smooth in study.smoothness.items():
        assert study.largest[kind] / study.stated[kind] == pytest.approx(smooth / study.mu)
        assert smooth > study.mu


def test_single_samples_norms_grow_while_that_of_the_mean_falls(study):
    rows = [row for row in study.rows if row.kind == "plane" and row.of_stated <= 1]
    assert rows
    assert all(row.grown == 0 and row.samples_grown > 0 for row in rows)


def test_what_a_step_does_is_counted_by_start_and_by_sample():
    problem = make_problem("plane", points=9, dimensions=3)
    starts = torch.randn(5, 3, generator=generator(0, "starts"), dtype=torch.float64)
    found = _take_steps("plane", problem, starts, eta=9.0)
    ratios, grown = [], []
    for w in starts:
        before = torch.autograd.functional.jacobian(lambda at: losses_of(problem, at), w)
        after = torch.autograd.functional.jacobian(
            lambda at: losses_of(problem, at), w - 9.0 * before.mean(0)
        )
        ratios.append(float(after.mean(0).norm() / before.mean(0).norm()))
        grown += (after.norm(dim=1) > before.norm(dim=1)).tolist()
    assert (found.starts, found.grown) == (5, sum(ratio > 1 for ratio in ratios))
    assert (found.worst, found.median) == pytest.approx((max(ratios), sorted(ratios)[2]))
    assert found.samples_grown == pytest.approx(sum(grown) / 45)
    assert 0 < found.grown < 5
    assert found.samples_grown != pytest.approx(0.5, abs=0.05)


def test_the_study_is_repeatable_and_ready_for_json(study):
    again = study_descent(points=40, dimensions=4, starts=40)
    assert again == study
    assert study_descent(points=40, dimensions=4, starts=40, seed=1) != study
    json.dumps(to_table(study), allow_nan=False)


def test_a_growing_norm_is_noticed(monkeypatch):
    """A smoothness that is half of the true one makes steps too long: the claim must fall."""
    true = LogisticProblem.smoothness.fget
    monkeypatch.setattr(LogisticProblem, "smoothness", property(lambda p: true(p) / 2))
    assert not study_descent(points=40, dimensions=4, starts=40).holds_up_to_largest


@pytest.mark.parametrize("bad", [{"starts": 1}, {"points": 1}])
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(InputError, match="give 2"):
        study_descent(**bad)


def test_a_problem_must_be_strongly_convex():
    with pytest.raises(InputError, match="a mu above 0"):
        make_problem("plane", mu=0.0)

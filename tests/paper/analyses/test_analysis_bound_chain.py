"""The chain of bounds on every sample of real models, and what is said of it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from analysis_nets import TASK, net, part, points, trained

from steepest.core.tables import to_table
from steepest.errors import InputError
from steepest.influence import bound_terms, check_bounds
from steepest.paper.analyses import (
    chain_of_bounds,
    find_directions,
    influences_along,
    sample_norms,
)
from steepest.paper.analyses.agreement import Targets
from steepest.paper.analyses.bound_chain import bound_terms_of

SCHEMES = ("entropy", "expected")


@pytest.fixture(scope="module")
def scene():
    everything = points(40)
    learnt, test, pool = part(everything, range(20)), points(25, seed=1), points(50, seed=2)
    before = trained(net(), learnt)
    after = trained(before, everything)
    directions = find_directions(
        after, TASK, everything, test, losses=SCHEMES, dampings=(0.01, 1.0), tolerance=1e-9,
        most_iterations=80,
    )  # fmt: skip
    targets = influences_along(after, TASK, pool, directions)
    norms = [sample_norms(model, TASK, pool, SCHEMES) for model in (after, before)]
    return before, after, pool, targets, norms


def chains(scene, norm="l2"):
    *_, targets, (after, before) = scene
    return [
        chain_of_bounds(
            one, after[one.direction.loss, norm], before[one.direction.loss, norm],
            cycle=0, norm=norm,
        )
        for one in targets
    ]  # fmt: skip


@pytest.mark.parametrize("norm", ["l2", "tensor-sum"])
def test_every_sample_keeps_the_chain_under_every_curvature_and_damping(scene, norm):
    *_, targets, (after, before) = scene
    for one in targets:
        loss = one.direction.loss
        terms = bound_terms_of(one, after[loss, norm], before[loss, norm], norm)
        check_bounds(terms)
        size, bound = terms.approx1.numpy(), terms.approx2.numpy()
        assert np.array_equal(size, np.abs(one.values))
        assert (size <= bound * (1 + 1e-12)).all()
        assert abs(one.values.mean()) <= size.mean()
    for chain in chains(scene, norm):
        assert chain.broken == 0
        assert chain.mean_holds
        assert chain.worst_share <= 1 + 1e-12
        assert abs(chain.target) <= chain.approx1 <= chain.approx2
        assert chain.median_ratio > 1


def test_the_terms_are_those_of_the_influence_room(scene):
    before, after, pool, targets, _ = scene
    one = targets[1]
    wanted = bound_terms(
        after, TASK, pool, one.direction.vector, loss=one.direction.loss, earlier=before,
        progress=False,
    ).means()  # fmt: skip
    found = chains(scene)[1]
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value)


def test_the_two_schemes_have_one_and_the_same_chain(scene):
    found = chains(scene)
    half = len(found) // 2
    for entropy, expected in zip(found[:half], found[half:], strict=True):
        assert (entropy.scheme, expected.scheme) == SCHEMES
        assert (entropy.curvature, entropy.damping) == (expected.curvature, expected.damping)
        for term in ("target", "approx1", "approx2", "approx3"):
            assert getattr(entropy, term) == pytest.approx(getattr(expected, term), rel=1e-7)


def test_a_sample_that_breaks_the_chain_is_counted(scene):
    *_, targets, (after, before) = scene
    norms = after["entropy", "l2"].copy()
    norms[3] = 1e-9
    chain = chain_of_bounds(targets[0], norms, before["entropy", "l2"], cycle=0, norm="l2")
    assert chain.broken == 1
    assert chain.worst_share > 1


def test_where_the_last_step_of_the_paper_fails_is_counted(scene):
    *_, targets, (after, _) = scene
    norms = after["entropy", "l2"]
    lower = norms.copy()
    lower[:10] -= 1e-6
    chain = chain_of_bounds(targets[0], norms, lower, cycle=0, norm="l2")
    assert chain.above_before == 10 / 50


def test_influences_of_zero_do_not_break_the_numbers(scene):
    *_, targets, (after, before) = scene
    nothing = Targets(targets[0].direction, np.zeros(50))
    chain = chain_of_bounds(
        nothing, after["entropy", "l2"], before["entropy", "l2"], cycle=0, norm="l2"
    )
    assert chain.median_ratio is None
    assert chain.worst_share == 0
    json.dumps(to_table(chain), allow_nan=False)


def test_a_sample_without_a_gradient_bounds_nothing(scene):
    *_, targets, (after, before) = scene
    values, norms = targets[0].values.copy(), after["entropy", "l2"].copy()
    values[3] = norms[3] = 0
    chain = chain_of_bounds(
        Targets(targets[0].direction, values), norms, before["entropy", "l2"], cycle=0, norm="l2"
    )
    assert chain.worst_share <= 1 + 1e-12
    assert chain.broken == 0


def test_a_system_without_a_solution_and_other_samples_are_refused(scene):
    *_, targets, (after, before) = scene
    norms = after["entropy", "l2"], before["entropy", "l2"]
    refused = dataclasses.replace(targets[0].direction, vector=None)
    with pytest.raises(InputError, match="more damping"):
        bound_terms_of(Targets(refused, None), *norms, "l2")
    with pytest.raises(InputError, match="one pool"):
        bound_terms_of(targets[0], norms[0][:3], norms[1], "l2")

"""Several directions at once beside one after another."""

from __future__ import annotations

import warnings

import pytest
import torch
from influence_nets import (
    CASES,
    TASK,
    mlp,
    random_vector,
    rows,
)
from model_state import same, snapshot

from steepest.errors import InputError
from steepest.influence import (
    Examples,
    gauss_newton,
    influence_on_test,
    influences_on_test,
    solve_cg,
    summed_gradient,
)
from steepest.influence import effects as module

QUIET = {"progress": False}


def directions_of(model, task, examples, count=3):
    curvature = gauss_newton(model, task, examples)
    return [random_vector(curvature, seed=i) for i in range(count)]


@pytest.mark.parametrize("loss", ["true-label", "entropy", "expected"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_row_is_what_one_direction_alone_gives(case, loss):
    make, data, task = CASES[case]
    model, examples = make(), data()
    directions = directions_of(model, task, examples)
    alone = [influence_on_test(model, task, examples, s, loss=loss, **QUIET) for s in directions]
    wanted = torch.stack([one.values for one in alone])
    before = snapshot(model)
    for size in (2, 100):
        found = influences_on_test(
            model, task, examples, directions, loss=loss, batch_size=size, **QUIET
        )
        assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert same(before, snapshot(model))


@pytest.mark.parametrize("warned", [False, True], ids=["refused", "slow"])
def test_a_model_that_cannot_be_vectorised_takes_one_pass_for_each_direction(warned, monkeypatch):
    model, examples = mlp(), rows()
    directions = directions_of(model, TASK, examples, count=2)
    wanted = influences_on_test(model, TASK, examples, directions, **QUIET)

    def refuse(*_args, **_options):
        if warned:
            warnings.warn("There is a performance drop because of aten::x", stacklevel=1)
        raise RuntimeError("no batching rule")

    monkeypatch.setattr(module, "vmap", refuse)
    found = influences_on_test(model, TASK, examples, directions, **QUIET)
    assert torch.allclose(found, wanted, rtol=1e-9)


def test_bad_input_is_refused():
    model, examples = mlp(), rows()
    directions = directions_of(model, TASK, examples, count=2)
    with pytest.raises(InputError, match="no direction"):
        influences_on_test(model, TASK, examples, [], **QUIET)
    with pytest.raises(InputError, match="needs targets"):
        influences_on_test(model, TASK, Examples(examples.inputs), directions, **QUIET)
    other = {name: value[..., :1] for name, value in directions[1].items()}
    with pytest.raises(InputError):
        influences_on_test(model, TASK, examples, [directions[0], other], **QUIET)


def test_solutions_are_taken_as_they_are():
    model, examples = mlp(), rows()
    curvature = gauss_newton(model, TASK, examples)
    v = summed_gradient(model, TASK, examples)
    solved = [solve_cg(curvature, v, damping=d, progress=False) for d in (0.1, 1.0)]
    found = influences_on_test(model, TASK, examples, solved, **QUIET)
    wanted = influences_on_test(model, TASK, examples, [s.vector for s in solved], **QUIET)
    assert torch.equal(found, wanted)
    for damping in ("x", None, float("nan"), -1.0):
        with pytest.raises(InputError, match="at least 0"):
            solve_cg(curvature, v, damping=damping, progress=False)

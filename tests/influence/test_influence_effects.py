from __future__ import annotations

import json

import pytest
import torch
from influence_nets import (
    CASES,
    TASK,
    conv_net,
    images,
    mlp,
    pair_of_nets,
    random_vector,
    rows,
)
from model_state import same, snapshot

import steepest
from steepest.errors import InputError, VerificationError
from steepest.influence import (
    BoundTerms,
    Examples,
    bound_terms,
    check_bounds,
    gauss_newton,
    influence_on_test,
    solve_cg,
    summed_gradient,
    vectors,
)
from steepest.influence.objective import loss_function

QUIET = {"progress": False}


def one_by_one(model, task, examples, s, loss):
    """Each sample's gradient by plain autograd, then the product with s."""
    function, found = loss_function(task, loss), []
    parameters = dict(model.named_parameters())
    for i in range(len(examples)):
        here = slice(i, i + 1)
        value = function(model(examples.inputs[here]), examples.targets[here]).sum()
        slopes = torch.autograd.grad(value, [parameters[name] for name in s])
        found.append(vectors.dot(dict(zip(s, slopes, strict=True)), s))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("loss", ["true-label", "pseudo-label", "entropy", "expected"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_influence_is_the_product_with_each_samples_gradient(case, loss):
    make, data, task = CASES[case]
    model, examples = make(), data()
    s = random_vector(gauss_newton(model, task, examples))
    wanted = one_by_one(model, task, examples, s, loss)
    for size in (2, 100):
        found = influence_on_test(model, task, examples, s, loss=loss, batch_size=size, **QUIET)
        assert torch.allclose(found.values, wanted, atol=1e-10)
    assert found.way == "forward mode"
    assert found.note == ""


def test_without_labels_only_losses_that_need_none_can_be_used():
    model, blind = mlp(), Examples(rows().inputs)
    s = random_vector(gauss_newton(model, TASK, rows()))
    with pytest.raises(InputError, match="needs targets"):
        influence_on_test(model, TASK, blind, s, **QUIET)
    assert len(influence_on_test(model, TASK, blind, s, loss="entropy", **QUIET).values) == 20


def test_a_direction_over_some_parameters_leaves_the_others_alone():
    model, examples = conv_net(), images()
    s = random_vector(gauss_newton(model, TASK, examples, layers="no-vectors"))
    found = influence_on_test(model, TASK, examples, s, **QUIET)
    assert torch.allclose(found.values, one_by_one(model, TASK, examples, s, "true-label"))


def test_a_model_without_forward_derivatives_is_measured_by_differences():
    old, new = pair_of_nets()
    s = random_vector(gauss_newton(new, TASK, rows()))
    exact = influence_on_test(new, TASK, rows(), s, **QUIET)
    found = influence_on_test(old, TASK, rows(), s, **QUIET)
    assert found.way == "difference quotients"
    assert "since" in found.note
    assert torch.allclose(found.values, exact.values, rtol=1e-4, atol=1e-5)
    nothing = influence_on_test(old, TASK, rows(), vectors.zeros_like(s), **QUIET)
    assert bool((nothing.values == 0).all())


def test_a_loss_of_ones_own_can_be_used():
    model = mlp()
    s = random_vector(gauss_newton(model, TASK, rows()))

    def margin(logits, _targets):
        top = logits.topk(2, dim=1).values
        return top[:, 1] - top[:, 0]

    found = influence_on_test(model, TASK, rows(), s, loss=margin, **QUIET)
    assert found.loss == "margin"
    assert torch.allclose(found.values, one_by_one(model, TASK, rows(), s, margin))


def test_with_ever_more_damping_the_ranking_is_that_of_gradient_products():
    model, pool = mlp(), rows(30, seed=2)
    curvature = gauss_newton(model, TASK, rows())
    v = summed_gradient(model, TASK, rows(5, seed=1))
    s = solve_cg(curvature, v, damping=1e8, **QUIET)
    found = influence_on_test(model, TASK, pool, s, **QUIET).values
    products = influence_on_test(model, TASK, pool, v, **QUIET).values
    assert found.argsort().tolist() == products.argsort().tolist()


def test_the_model_is_left_exactly_as_found():
    model = conv_net().train()
    before = snapshot(model)
    s = random_vector(gauss_newton(model, TASK, images()))
    influence_on_test(model, TASK, images(), s, **QUIET)
    bound_terms(model, TASK, images(), s, **QUIET)
    assert same(before, snapshot(model))


@pytest.mark.parametrize("loss", ["true-label", "entropy"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_chain_of_bounds_holds_for_every_sample(case, loss):
    make, data, task = CASES[case]
    model, examples = make(), data()
    curvature = gauss_newton(model, task, examples)
    v = summed_gradient(model, task, data(seed=1))
    s = solve_cg(curvature, v, damping=0.1, **QUIET)
    terms = bound_terms(model, task, examples, s, loss=loss, **QUIET)
    check_bounds(terms)
    assert bool(terms.holds().all())
    assert torch.equal(terms.approx1, terms.target.abs())
    means = terms.means()
    assert abs(means["target"]) <= means["approx1"] <= means["approx2"]
    assert terms.approx3 is None
    assert terms.solution_norm == pytest.approx(s.norm)


def test_the_upper_bound_is_the_product_of_the_two_norms():
    model, examples = conv_net(), images()
    s = random_vector(gauss_newton(model, TASK, examples))
    terms = bound_terms(model, TASK, examples, s, **QUIET)
    norms = steepest.gradient_norms(
        model, examples.inputs, "cross-entropy", targets=examples.targets
    )
    assert torch.allclose(terms.approx2, norms * vectors.norm(s))
    summed = bound_terms(model, TASK, examples, s, norm_kind="tensor-sum", **QUIET)
    assert bool((summed.approx2 > terms.approx2).all())


def test_the_bound_is_reached_along_a_samples_own_gradient():
    model = mlp()
    one = rows(1)
    g = summed_gradient(model, TASK, one)
    terms = bound_terms(model, TASK, one, g, **QUIET)
    assert float(terms.target) == pytest.approx(float(terms.approx2))


def test_norms_are_over_the_parameters_that_take_part():
    model, examples = conv_net(), images()
    s = random_vector(gauss_newton(model, TASK, examples, layers="no-vectors"))
    terms = bound_terms(model, TASK, examples, s, **QUIET)
    g = summed_gradient(
        model, TASK, Examples(examples.inputs[:1], examples.targets[:1]), layers="no-vectors"
    )
    assert float(terms.approx2[0]) == pytest.approx(vectors.norm(g) * vectors.norm(s))


def test_the_model_of_the_cycle_before_gives_the_third_approximation():
    model, earlier, examples = mlp(), mlp(), rows(6)
    with torch.no_grad():
        earlier[2].weight.mul_(3.0)
    s = random_vector(gauss_newton(model, TASK, examples))
    terms = bound_terms(model, TASK, examples, s, earlier=earlier, **QUIET)
    before = bound_terms(earlier, TASK, examples, s, **QUIET)
    assert torch.equal(terms.approx3, before.approx2)
    assert not torch.allclose(terms.approx3, terms.approx2)
    assert set(terms.means()) == {"target", "approx1", "approx2", "approx3"}


def test_a_broken_chain_is_an_error_that_names_the_sample():
    one = torch.ones(3, dtype=torch.float64)
    bound = torch.tensor([2.0, 0.5, 2.0], dtype=torch.float64)
    terms = BoundTerms(one, one, bound, None, 1.0, "l2", "entropy", "")
    assert terms.holds().tolist() == [True, False, True]
    with pytest.raises(VerificationError, match="1 samples, first for row 1"):
        check_bounds(terms)


def test_a_chain_holds_but_for_rounding():
    size = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    bound = torch.tensor([0.9995, 0.998, 0.0], dtype=torch.float64)
    terms = BoundTerms(size, size, bound, None, 1.0, "l2", "entropy", "")
    assert terms.holds().tolist() == [True, False, True]


def test_results_are_written_as_plain_tables():
    model, examples = mlp(), rows(4)
    s = random_vector(gauss_newton(model, TASK, examples))
    found = influence_on_test(model, TASK, examples, s, **QUIET)
    terms = bound_terms(model, TASK, examples, s, **QUIET)
    assert json.loads(json.dumps(found.to_table()))["values"] == found.values.tolist()
    assert len(json.loads(json.dumps(terms.to_table()))["approx2"]) == 4


def test_single_precision_agrees_with_double():
    exact_model, examples = conv_net(), images()
    s = random_vector(gauss_newton(exact_model, TASK, examples))
    exact = influence_on_test(exact_model, TASK, examples, s, **QUIET)
    model = conv_net().float()
    coarse = {name: t.float() for name, t in s.items()}
    found = influence_on_test(model, TASK, examples, coarse, **QUIET)
    assert torch.allclose(found.values, exact.values, rtol=1e-3, atol=1e-4)


def test_solutions_and_vectors_are_taken_alike():
    model = mlp()
    curvature = gauss_newton(model, TASK, rows())
    s = solve_cg(curvature, random_vector(curvature), damping=0.5, **QUIET)
    first = influence_on_test(model, TASK, rows(), s, **QUIET)
    again = influence_on_test(model, TASK, rows(), s.vector, **QUIET)
    assert torch.equal(first.values, again.values)

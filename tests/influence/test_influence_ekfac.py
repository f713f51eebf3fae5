from __future__ import annotations

import pytest
import torch
from influence_nets import (
    CASES,
    SEGMENTATION,
    TASK,
    close,
    conv_net,
    draw,
    images,
    maps,
    mlp,
    rows,
    seeded,
    segmenter,
)
from model_state import same, snapshot
from torch import nn

from steepest.errors import InputError
from steepest.influence import (
    Examples,
    dense_matrix,
    fit_ekfac,
    gauss_newton,
    solve_cg,
    summed_gradient,
    vectors,
)
from steepest.influence.ekfac import draw_labels
from steepest.tasks import MultiLabel

QUIET = {"progress": False}


def vector_of(fitted):
    return {n: draw(*p.shape, purpose=n).to(p) for n, p in fitted.parameters.items()}


def only(vector, names):
    return {name: vector[name] for name in names}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_solving_undoes_the_damped_product(case):
    make, data, task = CASES[case]
    fitted = fit_ekfac(make(), task, data(), weight_decay=0.01, **QUIET)
    v = vector_of(fitted)
    back = fitted.solve(fitted.product(v, damping=0.1), damping=0.1).vector
    covered = [name for name in v if name not in fitted.excluded]
    assert close(only(back, covered), only(v, covered))
    assert all(bool((back[name] == 0).all()) for name in fitted.excluded)


def test_the_fisher_information_of_one_sample_is_inverted_exactly():
    model, examples = seeded(nn.Linear(4, 3)), rows(1)
    fitted = fit_ekfac(model, TASK, examples, seed=3, **QUIET)
    drawn, _ = draw_labels(model(examples.inputs), range(1), seed=3)
    g = vectors.flatten(summed_gradient(model, TASK, Examples(examples.inputs, drawn)))
    v = vector_of(fitted)
    fisher = torch.outer(g, g) + 0.1 * torch.eye(len(g), dtype=g.dtype)
    wanted = torch.linalg.solve(fisher, vectors.flatten(v))
    assert close(fitted.solve(v, damping=0.1).vector, vectors.unflatten(wanted, v))


def fisher_of(model, task, examples, block, seed):
    """The Fisher information [G, O·I, O·I] of a layer under the labels drawn, the slow way."""
    drawn, _ = draw_labels(model(examples.inputs), range(len(examples)), seed)
    drawn[examples.targets == 255] = 255
    total = 0
    for i in range(len(examples)):
        positions = int((drawn[i] != 255).sum())
        one = Examples(examples.inputs[i : i + 1], drawn[i : i + 1])
        g = block.to_matrix(summed_gradient(model, task, one)).flatten(1)
        total = total + positions * g[:, :, None] * g[:, None, :] / len(examples)
    return total


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_eigenvalues_are_the_diagonal_of_the_fisher_information_in_the_basis(case):
    make, data, task = CASES[case]
    model, examples = make(), data()
    for f in fit_ekfac(model, task, examples, seed=1, **QUIET).factors:
        fisher = fisher_of(model, task, examples, f.block, seed=1)
        for group, whole in enumerate(fisher):
            basis = torch.kron(f.slopes[group], f.inputs[group])
            turned = basis.T @ whole @ basis
            assert torch.allclose(turned.diag(), f.values[group].flatten(), atol=1e-10)


def test_what_is_not_covered_is_said_and_left_out():
    fitted = fit_ekfac(conv_net(), TASK, images(), layers=lambda n, _: n != "4.bias", **QUIET)
    assert set(fitted.excluded) == {"1.weight", "1.bias", "4.bias"}
    found = fitted.solve(vector_of(fitted))
    assert found.excluded == fitted.excluded
    assert "4.bias" not in found.vector


def test_factors_do_not_depend_on_the_batch_size():
    fits = [fit_ekfac(conv_net(), TASK, images(), batch_size=b, **QUIET) for b in (1, 3, 50)]
    v = vector_of(fits[0])
    solutions = [fit.solve(v, damping=0.1).vector for fit in fits]
    assert close(solutions[0], solutions[2])
    assert close(solutions[1], solutions[2])


def test_labels_are_drawn_by_the_seed_and_not_read():
    blind = Examples(rows().inputs)
    fits = [fit_ekfac(mlp(), TASK, blind, seed=s, **QUIET) for s in (0, 0, 1)]
    v = vector_of(fits[0])
    solutions = [fit.solve(v, damping=0.1).vector for fit in fits]
    assert close(solutions[0], solutions[1], 1e-15)
    assert not close(solutions[0], solutions[2], 1e-3)


@pytest.mark.parametrize("layer", ["0", "2"])
def test_on_many_examples_it_is_near_gauss_newton_within_a_layer(layer):
    model, examples = mlp(), rows(2000)
    options = {"layers": [f"{layer}.weight", f"{layer}.bias"], "batch_size": 2000}
    curvature = gauss_newton(model, TASK, examples, **options)
    fitted = fit_ekfac(model, TASK, examples, **options, **QUIET)
    v = summed_gradient(model, TASK, rows(50, seed=1), layers=options["layers"])
    exact = solve_cg(curvature, v, damping=0.05, tolerance=1e-6, **QUIET).vector
    found = fitted.solve(v, damping=0.05).vector
    cosine = vectors.dot(found, exact) / vectors.norm(found) / vectors.norm(exact)
    assert cosine > 0.9
    assert 0.7 < vectors.norm(found) / vectors.norm(exact) < 1.3


@pytest.mark.parametrize("task", [SEGMENTATION, MultiLabel(3)], ids=["maps", "several labels"])
def test_the_mean_over_positions_does_not_shrink_the_fisher_information(task):
    dense = task is SEGMENTATION
    model = segmenter() if dense else mlp()
    examples = maps(40) if dense else Examples(draw(2000, 4), draw(2000, 3) > 0)
    if dense:
        targets = examples.targets.clamp_max(2)
        targets[:10] = targets[:, 0] = 255  # What training leaves out is left out here, too.
        examples = Examples(examples.inputs, targets)
    traces = torch.trace(dense_matrix(gauss_newton(model, task, examples), **QUIET))
    fitted = fit_ekfac(model, task, examples, **QUIET)
    found = sum(float(f.values.sum()) for f in fitted.factors)
    assert found == pytest.approx(float(traces), rel=0.25)


def test_damping_by_default_is_a_tenth_of_the_mean_eigenvalue():
    fitted = fit_ekfac(seeded(nn.Linear(4, 3)), TASK, rows(), weight_decay=0.01, **QUIET)
    v = vector_of(fitted)
    tenth = 0.1 * float(fitted.factors[0].values.mean())
    found = fitted.solve(v)
    assert close(found.vector, fitted.solve(v, damping=tenth).vector)
    assert found.effective_damping == pytest.approx(tenth + 0.01)
    lowest = float(fitted.factors[0].values.min()) + tenth + 0.01
    assert found.smallest_eigenvalue == pytest.approx(lowest)
    assert "by layer" in found.note
    assert found.to_table()["residual"] is None


def test_eigenvalues_of_0_need_damping():
    fitted = fit_ekfac(mlp(), TASK, rows(2), **QUIET)
    with pytest.raises(InputError, match="damping above 0"):
        fitted.solve(vector_of(fitted), damping=0.0)


def test_the_model_is_left_exactly_as_found():
    model = conv_net().train()
    model[4].weight.requires_grad_(False)
    before = snapshot(model)
    fitted = fit_ekfac(model, TASK, images(), **QUIET)
    assert same(before, snapshot(model))
    assert "4.weight" not in fitted.parameters


def test_single_precision_models_are_fitted_in_their_own_precision():
    fitted = fit_ekfac(conv_net().float(), TASK, images(), **QUIET)
    exact = fit_ekfac(conv_net(), TASK, images(), **QUIET)
    v = vector_of(fitted)
    found = fitted.solve(v, damping=0.1).vector
    assert found["0.weight"].dtype == torch.float32
    wanted = exact.solve({n: t.double() for n, t in v.items()}, damping=0.1).vector
    assert close(found, wanted, 1e-3)

from __future__ import annotations

import pytest
import torch
from influence_nets import conv_net, mlp
from torch import nn

from steepest.errors import InputError, ModelError, NonFiniteError
from steepest.influence import vectors
from steepest.influence.vectors import choose_parameters

A = {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": torch.tensor([5.0, 6.0])}
B = {"w": torch.ones(2, 2), "b": torch.tensor([2.0, -1.0])}


def test_products_norms_and_sums_are_those_of_the_flat_vectors():
    flat_a, flat_b = vectors.flatten(A), vectors.flatten(B)
    assert vectors.dot(A, B) == float(flat_a @ flat_b) == 14.0
    assert vectors.norm(A) == pytest.approx(float(flat_a.norm()))
    assert torch.equal(vectors.flatten(vectors.axpy(3.0, A, B)), 3 * flat_a + flat_b)
    assert torch.equal(vectors.flatten(vectors.scaled(2.0, A)), 2 * flat_a)
    assert vectors.size(A) == 6
    assert torch.equal(vectors.flatten(vectors.mean_of([A, B])), (flat_a + flat_b) / 2)


def test_adding_changes_the_sum_and_not_the_part():
    total, part = vectors.zeros_like(A), vectors.scaled(1.0, B)
    vectors.add_in_place(total, part)
    vectors.add_in_place(total, part)
    assert torch.equal(vectors.flatten(total), 2 * vectors.flatten(B))
    assert torch.equal(part["w"], B["w"])


def test_unflatten_undoes_flatten_and_keeps_the_kind_of_numbers():
    back = vectors.unflatten(vectors.flatten(A).double(), A)
    assert all(torch.equal(back[name], A[name]) for name in A)
    assert back["w"].dtype == torch.float32


def test_normal_draws_follow_the_seed_and_no_global_state():
    torch.manual_seed(1)
    first = vectors.draw_normal(A, 0, "start")
    torch.manual_seed(2)
    again, other = vectors.draw_normal(A, 0, "start"), vectors.draw_normal(A, 1, "start")
    assert torch.equal(vectors.flatten(first), vectors.flatten(again))
    assert not torch.equal(vectors.flatten(first), vectors.flatten(other))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"w": A["w"]}, InputError, "'b' has no vector"),
        ({**A, "c": A["b"]}, InputError, "'c' has no parameter"),
        ({**A, "b": torch.ones(3)}, InputError, r"\[3\]"),
        ({**A, "b": A["b"].to("meta")}, InputError, "one device"),
        ({**A, "b": torch.tensor([1.0, torch.nan])}, NonFiniteError, "'b'"),
    ],
)
def test_a_vector_that_does_not_belong_is_refused_in_one_line(given, error, words):
    with pytest.raises(error, match=words) as caught:
        vectors.check_vector(given, A)
    assert "\n" not in str(caught.value)


def test_all_trainable_parameters_take_part_unless_told_otherwise():
    model = mlp()
    model[0].bias.requires_grad_(False)
    chosen, excluded = choose_parameters(model)
    assert list(chosen) == ["0.weight", "2.weight", "2.bias"]
    assert excluded == ()


def test_one_dimensional_parameters_can_be_left_out():
    chosen, excluded = choose_parameters(conv_net(), "no-vectors")
    assert list(chosen) == ["0.weight", "4.weight", "7.weight"]
    assert set(excluded) == {"1.weight", "1.bias", "4.bias", "7.bias"}


def test_parameters_can_be_named_or_picked_by_a_function():
    named, _ = choose_parameters(mlp(), ["2.bias"])
    picked, excluded = choose_parameters(mlp(), lambda name, p: name.startswith("2") and p.ndim > 1)
    assert list(named) == ["2.bias"]
    assert list(picked) == ["2.weight"]
    assert "2.bias" in excluded


def test_chosen_parameters_follow_the_model():
    model = mlp()
    chosen, _ = choose_parameters(model)
    with torch.no_grad():
        model[0].weight.fill_(7.0)
    assert float(chosen["0.weight"].mean()) == 7.0
    assert not chosen["0.weight"].requires_grad


@pytest.mark.parametrize("layers", ["some", ["nowhere.weight"], lambda name, p: False, 3])
def test_a_choice_that_cannot_be_meant_is_refused(layers):
    with pytest.raises(InputError):
        choose_parameters(mlp(), layers)


def test_half_precision_is_refused_with_the_remedy():
    with pytest.raises(ModelError, match=r"model\.float\(\)"):
        choose_parameters(nn.Linear(2, 2).bfloat16())

"""Noise stability: what disturbed weights do to predictions."""

from __future__ import annotations

import pytest
import torch
from model_state import same, snapshot
from torch import nn
from torch.func import functional_call, jvp

import steepest
from steepest.errors import InputError, ModelError
from steepest.strategies import PoolView, create, noise_stability
from steepest.strategies.noise_stability import NoiseStability, disturb, weights_of
from steepest.strategies.view import Lens


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)).double()


class Rows:
    def __init__(self, rows):
        self.rows, self.ids = rows, range(len(rows))

    def batches(self, positions, size):
        for start in range(0, len(positions), size):
            yield self.rows[list(positions[start : start + size])]


def view(model, rows, **more):
    return PoolView(
        Rows(rows), Lens(model.eval(), torch.device("cpu"), dtype=torch.float64, **more)
    )


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "noise-stability", progress=False, **more)


def test_noise_has_the_promised_length_in_weights_alone(model):
    noisy = disturb(model, 1e-2, seed=1, copy=0)
    assert set(noisy) == {"0.weight", "1.weight", "3.weight"}
    for name, weight in weights_of(model).items():
        torch.testing.assert_close((noisy[name] - weight).norm(), 1e-2 * weight.norm())


def test_copies_and_seeds_have_directions_of_their_own(model):
    name = "0.weight"
    noisy = disturb(model, 1e-2, 1, 0)[name]
    assert torch.equal(disturb(model, 1e-2, 1, 0)[name], noisy)
    assert not torch.equal(disturb(model, 1e-2, 1, 1)[name], noisy)
    assert not torch.equal(disturb(model, 1e-2, 2, 0)[name], noisy)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_deviations_over_noise_tend_to_the_jacobian_in_that_direction(model):
    rows = normal(5, 4)
    model.eval()
    weights = weights_of(model)
    p = model(rows).softmax(1).detach()
    limits = []
    for copy in range(3):
        noisy = disturb(model, 1.0, 0, copy)
        direction = {name: noisy[name] - weights[name] for name in weights}
        _, moved = jvp(
            lambda w: functional_call(model, w, (rows,)).softmax(1), (weights,), (direction,)
        )
        limits.append(moved / p.norm(dim=1, keepdim=True))
    limit = torch.stack(limits, 1).flatten(1).detach()
    errors = []
    for noise in (1e-3, 1e-5):
        found = NoiseStability(copies=3, noise=noise).deviations(view(model, rows)) / noise
        errors.append(float((found - limit).norm() / limit.norm()))
    assert errors[0] < 1e-2
    assert errors[1] < errors[0] / 50


@pytest.mark.parametrize("size", [1, 4, 7])
def test_neither_batches_nor_groups_of_copies_change_anything(model, size, monkeypatch):
    rows = normal(7, 4)
    strategy = NoiseStability(copies=5)
    whole = strategy.deviations(view(model, rows))
    assert whole.shape == (7, 15)
    monkeypatch.setattr(noise_stability, "TOGETHER_BYTES", 2 * 48 * 8)
    parts = strategy.deviations(view(model, rows, batch_size=size))
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-13)


def test_the_first_moves_farthest_and_the_next_differs_most(model):
    pool = normal(30, 4)
    pool[9] = pool[4]
    places = NoiseStability(copies=8).deviations(view(model, pool))
    picks = choose(model, pool, 10, options={"copies": 8})
    assert picks.ids[0] == int(places.norm(dim=1).argmax())
    assert picks.scores[0] == pytest.approx(float(places.norm(dim=1).max()))
    assert list(picks.scores) == sorted(picks.scores, reverse=True)
    assert not {4, 9} <= set(picks.ids)


def test_without_noise_samples_are_drawn_by_the_seed(model):
    pool = normal(40, 4)
    ids = {choose(model, pool, 3, seed=s, options={"copies": 2, "noise": 0}).ids for s in range(6)}
    assert len(ids) == 6
    assert (0, 1, 2) not in ids
    assert not any(choose(model, pool, 3, options={"copies": 1, "noise": 0.0}).scores)


def test_the_model_is_left_as_found_also_after_an_error(model):
    model[0].bias.requires_grad_(False)
    before = snapshot(model)
    choose(model, normal(6, 4), 2, options={"copies": 3})
    assert same(snapshot(model), before)
    with pytest.raises(ModelError):
        choose(model, normal(6, 5), 2, options={"copies": 3})
    assert same(snapshot(model), before)


def test_tied_weights_are_disturbed_together():
    one, other = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    other.weight = one.weight
    model = nn.Sequential(one, other).double()
    noisy = disturb(model, 0.5, 0, 0)
    assert set(noisy) == {"0.weight"}
    rows = normal(2, 3)
    weight = noisy["0.weight"]
    expected = (rows @ weight.T @ weight.T).softmax(1)
    p = model(rows).softmax(1)
    found = NoiseStability(copies=1, noise=0.5).deviations(view(model, rows))
    torch.testing.assert_close(found, ((expected - p) / p.norm(dim=1, keepdim=True)).detach())


def test_maps_are_refused_and_so_is_a_model_without_weights():
    dense = nn.Sequential(nn.Conv2d(1, 3, 1)).double()
    with pytest.raises(InputError, match="many labels"):
        choose(dense, normal(3, 1, 2, 2), 1)
    with pytest.raises(ModelError, match="called 'weight'"):
        choose(nn.Softmax(1), normal(3, 4), 1)


@pytest.mark.parametrize("options", [{"copies": 0}, {"noise": -1.0}])
def test_options_are_checked(options):
    with pytest.raises(InputError, match="noise-stability: "):
        create("noise-stability", options)

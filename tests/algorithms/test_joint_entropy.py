"""Joint entropies of labels, against the sum over all label configurations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from steepest.strategies.algorithms import joint_entropy
from steepest.strategies.algorithms.joint_entropy import JointLabels, choose_jointly


def predictions(n, networks, classes, spread=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, networks, classes, dtype=torch.float64, generator=generator)
    return (logits * spread).log_softmax(2)


def joint_entropy_of(log_p):
    """H(y_1 … y_n) by the sum over all C^n configurations, of [n, T, C]."""
    p = log_p.exp()
    total = 0.0
    for labels in itertools.product(range(p.shape[2]), repeat=len(p)):
        each = torch.ones(p.shape[1], dtype=torch.float64)
        for row, label in zip(p, labels, strict=True):
            each = each * row[:, label]
        q = float(each.mean())
        total -= q * math.log(q) if q else 0.0
    return total


def noise(log_p):
    return float(torch.special.entr(log_p.exp()).sum(2).mean(1).sum())


def test_exact_entropies_equal_the_sum_over_all_configurations():
    log_p = predictions(5, 4, 3)
    labels = JointLabels(4, 10_000)
    for size in range(1, 5):
        labels.add(log_p[size - 1])
        assert labels.exact
        assert labels.entropy() == pytest.approx(joint_entropy_of(log_p[:size]), rel=1e-12)
        more = labels.conditional_entropy(log_p.exp())[4]
        wanted = joint_entropy_of(log_p[[*range(size), 4]])
        assert labels.entropy() + float(more) == pytest.approx(wanted, rel=1e-12)


def test_drawn_configurations_estimate_the_same():
    log_p = predictions(8, 5, 3)
    labels = JointLabels(5, 2000, seed=1)
    for row in log_p[:7]:
        assert labels.exact
        labels.add(row)
    assert not labels.exact
    assert len(labels._weights) == 2000
    wanted = joint_entropy_of(log_p[:7])
    assert labels.entropy() == pytest.approx(wanted, rel=0.02)
    more = labels.conditional_entropy(log_p.exp())[7]
    assert float(more) == pytest.approx(joint_entropy_of(log_p) - wanted, rel=0.02)


def greedy(log_p, k):
    """Take what raises the mutual information most, by brute force."""
    chosen: list[int] = []
    gains = []
    have = 0.0
    for _ in range(k):
        rest = [i for i in range(len(log_p)) if i not in chosen]
        values = [joint_entropy_of(log_p[[*chosen, i]]) - noise(log_p[[*chosen, i]]) for i in rest]
        best = max(values)
        chosen.append(rest[values.index(best)])
        gains.append(best - have)
        have = best
    return chosen, gains


@pytest.mark.parametrize("seed", range(3))
def test_the_choice_equals_brute_force(seed):
    log_p = predictions(7, 5, 3, seed=seed)
    chosen, gains = choose_jointly(log_p, 4)
    wanted, values = greedy(log_p, 4)
    assert chosen == wanted
    assert gains == pytest.approx(values, rel=1e-9)
    assert gains == sorted(gains, reverse=True)


def test_a_copy_adds_less_than_the_first_and_a_pair_no_more_than_both():
    log_p = predictions(2, 5, 3)
    (_, twice) = choose_jointly(log_p[[0, 0]], 2)
    assert twice[1] < 0.9 * twice[0]
    _, pair = choose_jointly(log_p, 2)
    alone = [choose_jointly(log_p[[i]], 1)[1][0] for i in range(2)]
    assert sum(pair) <= sum(alone) + 1e-12


def test_few_configurations_still_choose_distinct_samples_in_order():
    log_p = predictions(12, 5, 4)
    for configurations in (1, 7, 64):
        chosen, gains = choose_jointly(log_p, 12, configurations=configurations, seed=3)
        assert sorted(chosen) == list(range(12))
        assert min(gains) >= 0
        again = choose_jointly(log_p, 12, configurations=configurations, seed=3)
        assert again == (chosen, gains)
    one = choose_jointly(log_p, 12, configurations=7, seed=4)
    assert one[1] != choose_jointly(log_p, 12, configurations=7, seed=3)[1]


def test_drawn_gains_agree_with_exact_ones_within_their_noise():
    log_p = predictions(6, 8, 3)
    chosen, exact = choose_jointly(log_p, 6)
    assert choose_jointly(log_p[chosen], 6, configurations=240)[1] == pytest.approx(exact, abs=0.03)


def test_tiles_change_nothing(monkeypatch):
    log_p = predictions(9, 4, 3)
    whole = choose_jointly(log_p, 5)
    monkeypatch.setattr(joint_entropy, "_LIMIT_NUMBERS", 1)
    tiled = choose_jointly(log_p, 5)
    assert tiled[0] == whole[0]
    assert tiled[1] == pytest.approx(whole[1], abs=1e-12)


def test_certain_and_impossible_labels_stay_finite():
    certain = torch.tensor([[0.0, -torch.inf, -torch.inf], [-torch.inf, 0.0, -torch.inf]])
    log_p = torch.stack([certain, certain, certain.flip(0)]).double()
    chosen, gains = choose_jointly(log_p, 3)
    assert chosen == [0, 1, 2]
    assert gains == pytest.approx([math.log(2), 0, 0], abs=1e-12)
    drawn = choose_jointly(log_p, 3, configurations=2)
    assert drawn[1] == pytest.approx([math.log(2), 0, 0], abs=1e-12)


def test_many_samples_do_not_underflow():
    log_p = predictions(1, 4, 3).repeat(2000, 1, 1)
    labels = JointLabels(4, 12)
    for row in log_p:
        labels.add(row)
    found = labels.conditional_entropy(log_p[:1].exp())
    assert torch.isfinite(found).all()
    assert float(found[0]) == pytest.approx(noise(log_p[:1]), rel=1e-3)

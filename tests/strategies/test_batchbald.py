"""BatchBALD: agrees with BALD for one sample, dislikes copies, refuses what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import steepest
from steepest.errors import InputError, NonFiniteError
from steepest.models import build
from steepest.modules.draws import dropout_draws
from steepest.strategies import batchbald, create
from steepest.strategies.algorithms.joint_entropy import choose_jointly

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


@pytest.fixture
def model():
    options = {"dropout": "head", "dropout_rate": 0.7}
    net = build("small-cnn", 3, 1, 0, options).double().eval()
    with torch.no_grad():
        net.fc.weight.mul_(50)  # sure of itself, as trained nets are
    return net


def images(n=10):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, 1, 8, 8, dtype=torch.float64, generator=generator) * 3


def select(model, x, k, **options):
    options.setdefault("draws", 12)
    return steepest.select(model, x, k, "batchbald", options=options, seed=4, progress=False)


def bald(model, x):
    return steepest.score(model, x, "bald", options={"draws": 12}, seed=4, progress=False).values


def test_the_first_is_the_highest_bald_and_so_is_its_score(model):
    x = images()
    picks = select(model, x, 3)
    values = bald(model, x)
    assert picks.ids[0] == int(np.argmax(values))
    assert picks.scores[0] == pytest.approx(values.max(), rel=1e-9)
    for i in range(4):
        (alone,) = select(model, x[i : i + 1], 1).scores
        assert alone == pytest.approx(values[i], rel=1e-9)


def test_a_pair_is_worth_no_more_than_both_and_a_copy_less(model):
    x = images()
    values = bald(model, x)
    for i, j in ((0, 1), (2, 5), (7, 3)):
        pair = select(model, x[[i, j]], 2).scores
        assert sum(pair) <= values[i] + values[j] + 1e-12
        assert sum(pair) >= max(values[i], values[j]) - 1e-12
        twins = select(model, x[[i, i]], 2).scores
        assert sum(twins) < 2 * values[i] * 0.99


def test_of_two_copies_and_a_stranger_the_stranger_comes_second(model):
    x = images()
    best = int(np.argmax(bald(model, x)))
    pool = torch.cat([x[best : best + 1], x[best : best + 1], x])
    picks = select(model, pool, 2)
    same_sample = {0, 1, best + 2}
    assert picks.ids[0] in same_sample
    assert picks.ids[1] not in same_sample


def test_it_is_the_greedy_choice_over_consistent_networks(model):
    x = images()
    log_p = torch.stack(list(dropout_draws(model, x, 12, 4)), dim=1).log_softmax(2)
    chosen, gains = choose_jointly(log_p, 6)
    picks = select(model, x, 6)
    assert list(picks.ids) == chosen
    np.testing.assert_allclose(picks.scores, gains, rtol=1e-9)
    assert list(gains) == sorted(gains, reverse=True)


def test_few_configurations_and_the_whole_pool(model):
    picks = select(model, images(), 10, configurations=30)
    assert sorted(picks.ids) == list(range(10))
    assert picks == select(model, images(), 10, configurations=30)


def test_large_batches_are_refused_with_the_way_out(model):
    with pytest.raises(InputError, match="'stochastic' with of=bald, or 'bald'"):
        select(model, images(), 5, limit=4)
    assert len(select(model, images(), 4, limit=4)) == 4
    assert create("batchbald").limit == 100


def test_pools_that_would_take_a_cpu_forever_are_refused(model):
    with pytest.raises(InputError, match=r"10 candidates are above pool_limit = 9 .*set a subset"):
        select(model, images(), 2, pool_limit=9)
    assert create("batchbald").pool_limit == 20_000


def test_large_pools_are_refused_before_they_fill_the_memory(model, monkeypatch):
    monkeypatch.setattr(batchbald, "_LIMIT_NUMBERS", 10 * 12 * 3 - 1)
    with pytest.raises(InputError, match="set a subset"):
        select(model, images(), 2)


def test_label_maps_are_refused():
    torch.manual_seed(0)
    dense = torch.nn.Sequential(torch.nn.Dropout2d(0.5), torch.nn.Conv2d(1, 3, 1)).double()
    with pytest.raises(InputError, match="batchbald has no meaning where a sample has many labels"):
        select(dense, images(), 2)


def spoil(_module, args, out):
    """Let predictions for bright images be NaN."""
    return torch.where(args[0][:, 0, :1, 0] > 50, torch.nan, out)


def test_predictions_that_are_not_finite_name_the_sample(model):
    model.register_forward_hook(spoil)
    x = images(4)
    x[2] = 99
    with pytest.raises(NonFiniteError, match="sample 2"):
        select(model, x, 2)


def test_options_are_checked():
    with pytest.raises(InputError, match="at least 1"):
        create("batchbald", {"configurations": 0})
    with pytest.raises(InputError, match="batchbald: draws"):
        create("batchbald", {"draws": 0})
    assert create("batchbald").model_options() == {"dropout": "head"}

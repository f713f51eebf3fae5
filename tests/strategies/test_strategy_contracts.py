"""What every strategy promises; a new file in ``strategies/`` is tested by being there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.errors import UnknownNameError
from steepest.strategies import Strategy, create, names
from steepest.strategies.base import STRATEGIES
from steepest.tables import to_table

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

ALL = names()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 3),
        )

    def forward(self, x):
        return self.body(x)


@pytest.fixture
def model():
    torch.manual_seed(7)
    net = Net().double()
    net(torch.randn(16, 1, 6, 6, dtype=torch.float64) * 2 + 1)  # statistics that are not 0 and 1
    return net.train()


@pytest.fixture
def pool():
    return torch.randn(23, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def scores(model, pool, name, **more):
    return steepest.score(model, pool, name, progress=False, **more)


@pytest.mark.parametrize("name", ALL)
class TestEveryStrategy:
    def test_scores_are_finite_and_one_per_sample(self, name, model, pool):
        found = scores(model, pool, name)
        assert found.values.shape == (23,)
        assert found.values.dtype == np.float64
        assert np.isfinite(found.values).all()
        assert list(found.ids) == list(range(23))
        assert found.strategy == name

    def test_scores_tell_samples_apart(self, name, model, pool):
        assert len(np.unique(scores(model, pool, name).values)) > 15

    def test_the_same_seed_gives_the_same_scores(self, name, model, pool):
        again = scores(model, pool, name, seed=3).values
        assert np.array_equal(scores(model, pool, name, seed=3).values, again)

    @pytest.mark.parametrize("size", [1, 5, 100])
    def test_batch_size_changes_nothing(self, name, size, model, pool):
        whole = scores(model, pool, name, seed=1).values
        split = scores(model, pool, name, seed=1, batch_size=size).values
        np.testing.assert_allclose(split, whole, rtol=1e-9, atol=1e-14)

    def test_the_order_of_the_pool_changes_nothing(self, name, model, pool):
        order = torch.randperm(23, generator=torch.Generator().manual_seed(2))
        straight = steepest.select(model, pool, 6, name, seed=4, progress=False)
        shuffled = steepest.select(
            model, pool[order], 6, name, ids=order.tolist(), seed=4, progress=False
        )
        assert shuffled.ids == straight.ids

    def test_a_subset_keeps_the_scores_of_its_samples(self, name, model, pool):
        whole = dict(enumerate(scores(model, pool, name, seed=5).values))
        part = scores(model, pool, name, seed=5, subset=9)
        assert len(part) == 9
        np.testing.assert_allclose(part.values, [whole[i] for i in part.ids], rtol=1e-9, atol=1e-14)

    def test_k_distinct_ids_of_the_pool_best_first(self, name, model, pool):
        ids = [f"photo-{i}.png" for i in range(23)]
        taken = ids[:4]
        picks = steepest.select(
            model, pool, 10, name, ids=ids, labelled=taken, seed=6, progress=False
        )
        assert len(set(picks.ids)) == 10
        assert set(picks.ids) <= set(ids) - set(taken)
        assert list(picks.scores) == sorted(picks.scores, reverse=True)
        assert picks.ranks == tuple(range(1, 11))

    def test_one_sample_and_the_whole_pool_can_be_chosen(self, name, model, pool):
        assert steepest.select(model, pool[:1], 1, name, progress=False).ids == (0,)
        assert set(steepest.select(model, pool, 23, name, progress=False).ids) == set(range(23))

    def test_the_model_is_left_as_found(self, name, model, pool):
        model.body[0].bias.requires_grad_(False)
        model.body[6].weight.grad = torch.ones_like(model.body[6].weight)
        model.body[1].eval()
        before = snapshot(model)
        scores(model, pool, name)
        assert same(snapshot(model), before)

    def test_labels_beside_the_inputs_are_never_used(self, name, model, pool):
        class Labelled(torch.utils.data.Dataset):
            def __init__(self, label):
                self.label = label

            def __len__(self):
                return len(pool)

            def __getitem__(self, i):
                return pool[i], self.label(i)

        one = scores(model, Labelled(lambda i: i % 3), name).values
        other = scores(model, Labelled(lambda i: 0), name).values
        assert np.array_equal(one, other)

    def test_options_rebuild_it_by_name(self, name):
        strategy = STRATEGIES.get(name)()
        assert isinstance(strategy, Strategy)
        assert create(name, strategy.options()) == strategy
        assert strategy.options() == to_table(strategy)

    def test_unknown_options_name_the_nearest(self, name):
        with pytest.raises(UnknownNameError, match="unknown key in strategy"):
            create(name, {"nrom": "l2"})

    def test_the_docstring_holds_the_formula(self, name):
        assert "score(x) = " in (STRATEGIES.get(name).__doc__ or "")

    def test_it_has_a_file_of_its_own(self, name):
        assert STRATEGIES.get(name).__module__ == f"steepest.strategies.{name.replace('-', '_')}"


def test_the_names_users_know_are_there():
    wanted = {
        "random",
        "entropy",
        "margin",
        "least-confidence",
        "entropy-gradnorm",
        "expected-gradnorm",
        "egl",
        "fisher-gradnorm",
    }
    assert wanted <= set(ALL)
    with pytest.raises(UnknownNameError, match="did you mean 'entropy-gradnorm'"):
        create("entropy-gradnrom")

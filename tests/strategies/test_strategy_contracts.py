"""What every strategy promises; a new file in ``strategies/`` is tested by being there."""

from __future__ import annotations

from typing import Literal, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from contract import LABELLED, QUICK, SAMPLES, make_model, make_pool, make_support, select
from model_state import same, snapshot

import steepest
from steepest.core.tables import to_table
from steepest.errors import InputError, SteepestError, UnknownNameError
from steepest.strategies import Needs, Scorer, Strategy, Support, create, names
from steepest.strategies.base import STRATEGIES
from steepest.strategies.batch import Batch

pytestmark = [
    pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning"),
    pytest.mark.filterwarnings("ignore:.*collapsed.*:steepest.errors.SteepestWarning"),
]

ALL = names()
SCORERS = [name for name in ALL if issubclass(STRATEGIES.get(name), Scorer)]
FREE = [i for i in range(SAMPLES) if i not in LABELLED]
PARTS = {"features": Needs.FEATURES, "maps": Needs.MAPS, "draws": Needs.DRAWS}
CHOICES = [
    (name, option)
    for name in ALL
    for option, hint in get_type_hints(STRATEGIES.get(name)).items()
    if get_origin(hint) is Literal
]


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def pool():
    return make_pool()


@pytest.fixture
def looked_at(monkeypatch):
    """What strategies ask of batches, by its name there."""
    asked = set()

    def look_up(batch, part):
        asked.add(part)
        return object.__getattribute__(batch, part)

    monkeypatch.setattr(Batch, "__getattribute__", look_up)
    return asked


def scores(model, pool, name, **more):
    more.setdefault("options", QUICK.get(name, {}))
    more.setdefault("labelled", LABELLED)
    return steepest.score(model, pool, name, support=make_support(), progress=False, **more)


class Labelled(torch.utils.data.Dataset):
    """Samples with labels beside them that nobody may look at."""

    def __init__(self, pool, label):
        self.pool = pool
        self.label = label

    def __len__(self):
        return len(self.pool)

    def __getitem__(self, i):
        return self.pool[i], self.label(i)


@pytest.mark.parametrize("name", ALL)
class TestEveryStrategy:
    def test_k_distinct_ids_of_the_unlabelled_in_order_of_rank(self, name, model, pool):
        ids = [f"photo-{i}.png" for i in range(SAMPLES)]
        taken = [ids[i] for i in LABELLED]
        picks = select(
            model, pool, 10, name, ids=ids, labelled=taken, support=make_support(ids), seed=6
        )
        assert len(set(picks.ids)) == 10
        assert set(picks.ids) <= set(ids) - set(taken)
        assert np.isfinite(picks.scores).all()
        assert picks.ranks == tuple(range(1, 11))
        assert picks.strategy == name
        assert picks.candidates == len(FREE)

    def test_the_same_seed_gives_the_same_choice_by_what_is_declared(
        self, name, model, pool, looked_at
    ):
        assert select(model, pool, 7, name, seed=3) == select(model, pool, 7, name, seed=3)
        needs = create(name, QUICK.get(name, {})).needs_alone
        assert looked_at & PARTS.keys() == {part for part, need in PARTS.items() if need in needs}

    def test_batch_size_changes_nothing(self, name, model, pool):
        whole = select(model, pool, 7, name, seed=1)
        for size in (1, 5, 100):
            split = select(model, pool, 7, name, seed=1, batch_size=size)
            assert split.ids == whole.ids
            np.testing.assert_allclose(split.scores, whole.scores, rtol=1e-7, atol=1e-12)

    def test_batch_size_changes_nothing_among_copies_in_single_precision(self, name, model, pool):
        model, pool = model.float(), pool.float()
        support = make_support(dtype=torch.float32)
        best = select(model, pool, 1, name, seed=1, support=support).ids[0]
        copied = pool.clone()
        copied[FREE[::2]] = pool[best]
        whole = select(model, copied, 7, name, seed=1, support=support)
        for size in (1, 5, 7):
            split = select(model, copied, 7, name, seed=1, support=support, batch_size=size)
            assert split.ids == whole.ids

    def test_the_order_of_the_pool_changes_nothing(self, name, model, pool):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(2))
        straight = select(model, pool, 6, name, seed=4)
        shuffled = select(
            model, pool[order], 6, name, ids=order.tolist(), labelled=LABELLED, seed=4
        )
        assert shuffled.ids == straight.ids

    def test_the_whole_pool_can_be_chosen(self, name, model, pool):
        assert set(select(model, pool, len(FREE), name).ids) == set(FREE)

    def test_one_candidate_is_enough(self, name, model, pool):
        one = FREE[0]
        rest = [i for i in range(SAMPLES) if i != one]
        assert select(model, pool, 1, name, labelled=rest).ids == (one,)

    def test_a_subset_is_all_that_is_chosen_from(self, name, model, pool):
        picks = select(model, pool, 9, name, seed=5, subset=9)
        assert picks.candidates == 9
        everyone = select(model, pool, 9, "random", seed=5, subset=9)
        assert set(picks.ids) == set(everyone.ids)

    def test_equal_samples_are_no_trouble(self, name, model, pool):
        same_ones = pool[:1].expand(SAMPLES, -1, -1, -1)
        picks = select(model, same_ones, 5, name, seed=2)
        assert len(set(picks.ids)) == 5
        assert picks.ids != tuple(FREE[:5])  # Ties are drawn for, and do not go to who comes first.

    def test_a_model_that_is_too_sure_is_no_trouble(self, name, model, pool):
        with torch.no_grad():
            model.head.weight.mul_(1e5)
        picks = select(model, pool, 5, name, seed=2)
        assert len(set(picks.ids)) == 5
        assert np.isfinite(picks.scores).all()

    def test_the_models_are_left_as_found(self, name, model, pool):
        model.body[0].bias.requires_grad_(False)
        model.head.weight.grad = torch.ones_like(model.head.weight)
        model.body[1].eval()
        support = make_support()
        nets = [model, *support.members, support.previous]
        before = [snapshot(net) for net in nets]
        state = torch.get_rng_state()
        select(model, pool, 4, name, support=support)
        assert all(same(snapshot(net), was) for net, was in zip(nets, before, strict=True))
        assert torch.equal(torch.get_rng_state(), state)

    def test_labels_of_candidates_are_never_used(self, name, model, pool):
        one = select(model, Labelled(pool, lambda i: i % 3), 6, name)
        other = select(model, Labelled(pool, lambda _: 0), 6, name)
        assert one == other

    def test_without_labels_or_support_it_works_or_says_what_is_missing(self, name, model, pool):
        try:
            picks = select(model, pool, 3, name, labelled=None, support=Support())
        except SteepestError as error:
            said = str(error)
            assert name in said
            assert "\n" not in said
        else:
            assert len(set(picks.ids)) == 3

    def test_options_rebuild_it_by_name(self, name):
        strategy = STRATEGIES.get(name)()
        assert isinstance(strategy, Strategy)
        assert create(name, strategy.options()) == strategy
        assert strategy.options() == to_table(strategy)

    def test_unknown_options_name_the_nearest(self, name):
        with pytest.raises(UnknownNameError, match="unknown key in strategy"):
            create(name, {"nrom": "l2"})

    def test_it_has_a_file_of_its_own(self, name):
        assert STRATEGIES.get(name).__module__ == f"steepest.strategies.{name.replace('-', '_')}"


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_an_unknown_choice_is_refused_in_python_too(name, option):
    with pytest.raises(UnknownNameError, match=f"strategy '{name}' {option} 'no'"):
        STRATEGIES.get(name)(**{option: "no"})


@pytest.mark.parametrize("name", SCORERS)
class TestEveryScorer:
    def test_scores_are_finite_and_one_per_sample(self, name, model, pool):
        found = scores(model, pool, name)
        assert found.values.shape == (len(FREE),)
        assert found.values.dtype == np.float64
        assert np.isfinite(found.values).all()
        assert list(found.ids) == FREE
        assert found.strategy == name

    def test_scores_tell_samples_apart(self, name, model, pool):
        assert len(np.unique(scores(model, pool, name).values)) > 15

    def test_the_highest_scores_are_chosen(self, name, model, pool):
        found = scores(model, pool, name, seed=9)
        picks = select(model, pool, 5, name, seed=9)
        assert list(picks.scores) == sorted(found.values, reverse=True)[:5]

    def test_a_subset_keeps_the_scores_of_its_samples(self, name, model, pool):
        if type(create(name)).prepare is not Strategy.prepare:
            pytest.skip("what it trains on differs between a pool and its part")
        found = scores(model, pool, name, seed=5)
        whole = dict(zip(found.ids, found.values, strict=True))
        part = scores(model, pool, name, seed=5, subset=9)
        assert len(part) == 9
        np.testing.assert_allclose(part.values, [whole[i] for i in part.ids], rtol=1e-9, atol=1e-14)

    def test_the_docstring_holds_the_formula(self, name):
        assert "score(x) = " in (STRATEGIES.get(name).__doc__ or "")


@pytest.mark.parametrize("name", [name for name in ALL if name not in SCORERS])
def test_who_chooses_batches_has_no_scores(name, model, pool):
    with pytest.raises(InputError, match="use select"):
        scores(model, pool, name)


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

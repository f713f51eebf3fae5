"""Ids are those of the data set, whatever the pool is wrapped in; nothing is misnamed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset

import steepest
from steepest.errors import InputError, NonFiniteError, SteepestError

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

OPEN = list(range(10, 20))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5))


@pytest.fixture
def x():
    return torch.randn(20, 3, 2, 2, generator=torch.Generator().manual_seed(1))


class Named(Dataset):
    def __init__(self, x, ids):
        self.x, self.ids = x, ids

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class Holes(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return None if i == 2 else self.x[i]


class Torn(Holes):
    def __getitem__(self, i):
        if i == 2:
            raise OSError(5, "Input/output error", "scans/2.png")
        return self.x[i]


def without_holes(items):
    return torch.stack([item for item in items if item is not None])


def scores_by_id(scores):
    assert len(scores.ids) == len(scores.values)
    return dict(zip(scores.ids, scores.values.tolist(), strict=True))


def test_a_subset_keeps_the_ids_of_its_data_set(model, x):
    expected = steepest.select(model, x, 4, "margin", labelled=range(10), progress=False)
    found = steepest.select(model, Subset(TensorDataset(x), OPEN), 4, "margin", progress=False)
    assert found.ids == expected.ids
    nested = Subset(Subset(TensorDataset(x), list(range(5, 20))), list(range(5, 15)))
    assert steepest.select(model, nested, 4, "margin", progress=False).ids == expected.ids
    names = [f"s{i}" for i in range(20)]
    named = steepest.select(model, Subset(Named(x, names), OPEN), 4, "margin", progress=False)
    assert named.ids == tuple(f"s{i}" for i in expected.ids)


def test_the_sampler_of_a_loader_is_honoured_or_refused(model, x):
    loader = DataLoader(TensorDataset(x), sampler=SubsetRandomSampler(OPEN))
    try:
        found = steepest.select(model, loader, 4, progress=False)
    except SteepestError:
        return
    assert set(found.ids) <= set(OPEN)


def test_a_collation_that_drops_samples_misnames_nobody(model, x):
    loader = DataLoader(Holes(x), collate_fn=without_holes)
    try:
        found = scores_by_id(steepest.score(model, loader, batch_size=5, progress=False))
    except SteepestError:
        return
    whole = scores_by_id(steepest.score(model, x, progress=False))
    assert {i: pytest.approx(whole[i], rel=1e-5) for i in found} == found


def test_a_file_that_cannot_be_read_is_no_matter_of_shapes(model, x):
    with pytest.raises(InputError, match=r"'scans/2\.png'\): look at that file") as caught:
        steepest.select(model, Torn(x), 4, progress=False)
    assert "shape" not in str(caught.value)


@pytest.mark.parametrize("count", [10, 30])
def test_more_or_fewer_ids_than_samples_are_refused(count, model, x):
    with pytest.raises(SteepestError, match=f"{count} ids"):
        steepest.select(model, Named(x, [f"s{i}" for i in range(count)]), 4, progress=False)


@pytest.mark.parametrize("strategy", ["fisher-gradnorm", "egl"])
def test_numbers_and_names_may_be_mixed(strategy, model, x):
    ids = [i if i % 3 else f"photo-{i}" for i in range(20)]
    given = {"options": {"draws": 2}, "ids": ids, "progress": False}
    whole, *parts = (
        scores_by_id(steepest.score(model, x, strategy, batch_size=size, **given))
        for size in (20, 1, 7)
    )
    for part in parts:
        assert part == pytest.approx(whole, rel=1e-4)


def test_a_table_keeps_numbers_and_odd_names_apart(model, x, tmp_path):
    ids = [i if i % 2 else f"{i}\r,{i}" for i in range(20)]
    picks = steepest.select(model, x, 6, ids=ids, progress=False)
    picks.save(tmp_path / "picks.csv")
    assert {type(name) for name in picks.ids} == {int, str}
    assert steepest.Selection.load(tmp_path / "picks.csv") == picks


@pytest.mark.parametrize("ids", [np.arange(20), torch.arange(20)])
def test_ids_become_plain_values_however_they_are_given(ids, model, x, tmp_path):
    expected = steepest.select(model, x, 4, labelled=[3], progress=False)
    for picks in (
        steepest.select(model, Named(x, ids), 4, labelled=ids[3:4], progress=False),
        steepest.select(model, x, 4, ids=ids, labelled=ids[3:4], progress=False),
    ):
        assert picks.ids == expected.ids
        assert all(type(i) is int for i in picks.ids)
        picks.save(tmp_path / "picks.json")
        assert json.loads((tmp_path / "picks.json").read_text())["ids"] == list(expected.ids)


@pytest.mark.parametrize("kind", [np.float64, np.float16, ">f4"])
def test_arrays_of_another_precision_give_the_same_choice_or_are_refused(kind, model, x):
    try:
        found = steepest.select(model, x.numpy().astype(kind), 4, progress=False)
    except SteepestError:
        return
    assert found.ids == steepest.select(model, x, 4, progress=False).ids


@pytest.mark.parametrize(
    "pool",
    [
        np.array(3.0), torch.tensor(3.0), np.zeros(5, np.float32), np.array([None] * 5),
        np.array(["a", "b"]), b"bytes", [torch.zeros(3, 2, 2), torch.zeros(3, 3, 3)],
        (torch.zeros(20, 3, 2, 2), torch.zeros(20)), {"input": torch.zeros(20, 3, 2, 2)},
        TensorDataset(torch.zeros(5, 3, 2, 2, dtype=torch.uint8)), ["a.png", "b.png"],
        [[0.5] * 12] * 5, torch.zeros(5, 12).to_sparse(), torch.zeros(5, 12, device="meta"),
        np.ma.masked_equal(np.zeros((5, 12), np.float32), 0),
    ],
)  # fmt: skip
def test_strange_pools_are_refused_in_our_own_words(pool, model):
    with pytest.raises(SteepestError) as caught:
        steepest.select(model, pool, 1, progress=False)
    assert "\n" not in str(caught.value)


def test_items_of_several_lengths_are_told_to_be_padded_by_a_loader(model):
    ragged = [torch.zeros(length) for length in (3, 5, 4)]
    with pytest.raises(SteepestError, match=r"batch_size=1, or .* pads them"):
        steepest.select(model, ragged, 2, progress=False)


def test_where_nothing_is_left_nobody_is_told_to_lower_k(model, x):
    with pytest.raises(SteepestError, match="k = 1, but no sample is left to choose"):
        steepest.select(model, x, 1, labelled=range(20), progress=False)
    # An id that is none of the pool's takes no sample away.
    with pytest.raises(SteepestError, match="'b' is not in the pool"):
        steepest.select(model, x, 20, labelled=["b"], progress=False)


def test_numbers_of_numpy_count_as_numbers(model, x):
    expected = steepest.select(model, x, 4, subset=9, batch_size=7, progress=False)
    sizes = {"subset": np.int64(9), "batch_size": np.int64(7)}
    assert steepest.select(model, x, np.int64(4), **sizes, progress=False) == expected


def test_a_file_open_for_reading_alone_is_a_pool_without_a_word(model, x, tmp_path):
    np.save(tmp_path / "pool.npy", x.numpy())
    pool = np.load(tmp_path / "pool.npy", mmap_mode="r")
    expected = steepest.select(model, x, 4, progress=False)
    assert steepest.select(model, pool, 4, progress=False) == expected


class BrokenInPlaces(nn.Module):
    """Says NaN of some samples in a way through which no gradient flows."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        logits = self.head(x.flatten(1))
        return logits.masked_fill(x.flatten(1)[:, :1] > 1, float("nan"))


@pytest.mark.parametrize(
    "strategy", ["entropy-gradnorm", "gradnorm-spread", "margin", "stochastic"]
)
def test_a_prediction_that_is_nan_is_refused_by_name(x, strategy):
    broken = (x.flatten(1)[:, 0] > 1).nonzero().flatten().tolist()
    with pytest.raises(NonFiniteError, match="is NaN") as told:
        steepest.select(BrokenInPlaces(), x, 3, strategy=strategy, progress=False)
    assert any(f"sample {i} is NaN" in str(told.value) for i in broken)

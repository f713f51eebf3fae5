"""A pool that is scored in parts gives what it gives as a whole, to the last bit."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, RegimeWarning
from steepest.selecting.shards import Shard
from steepest.strategies import Support

HOW = {"progress": False, "labelled": ["s3", "s50"], "seed": 4, "batch_size": 8}
IDS = [f"s{i}" for i in range(70)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    layers = nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4)
    net = nn.Sequential(*layers).eval()
    with torch.no_grad():
        net[-1].weight *= 30  # sure enough for gradient norms to follow entropies
    return net


@pytest.fixture(scope="module")
def pool():
    return torch.randn(70, 3, 2, 2, generator=torch.Generator().manual_seed(1))


def part_of(model, pool, shard, strategy="margin", **changes):
    return steepest.score(model, pool, strategy, ids=IDS, shard=shard, **HOW | changes)


def parts_of(model, pool, count=3, **changes):
    return [part_of(model, pool, f"{n}/{count}", **changes) for n in range(count, 0, -1)]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("entropy-gradnorm", {}),
        ("fisher-gradnorm", {}),
        ("mc-dropout", {}),
        ("random", {}),
        ("qbc", {"support": True}),
        ("margin", {"subset": 40}),
    ],
)
def test_shards_together_are_the_whole(model, pool, name, changes):
    if "support" in changes:
        torch.manual_seed(1)
        other = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).eval()
        changes = {"support": Support(members=(other,))}
    how = HOW | changes
    whole = steepest.score(model, pool, name, ids=IDS, **how)
    parts = parts_of(model, pool, strategy=name, **changes)
    merged = steepest.Scores.merge(parts)
    assert [len(part) % 8 for part in parts[1:]] == [0, 0]
    assert tuple(merged.ids) == tuple(whole.ids)
    assert merged.values.tolist() == whole.values.tolist()
    assert merged.regime == whole.regime
    assert merged.select(9) == steepest.select(model, pool, 9, name, ids=IDS, **how)


@pytest.mark.parametrize("batches", [1, 2, 5, 7])
def test_shards_are_whole_batches_shared_evenly(batches):
    rows = list(range(batches * 8 - 3))
    for count in range(1, batches + 1):
        parts = [Shard(n, count).take(rows, 8) for n in range(1, count + 1)]
        assert [row for part in parts for row in part] == rows
        sizes = [-(-len(part) // 8) for part in parts]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("ids", [IDS, list(range(70)), [*range(35), *(str(i) for i in range(35))]])
def test_scores_come_back_as_they_went(model, pool, ids, tmp_path):
    scores = steepest.score(model, pool, "entropy-gradnorm", ids=ids, shard="2/2", progress=False)
    scores.save(tmp_path / "part.npz")
    again = steepest.Scores.load(tmp_path / "part.npz")
    assert list(map(repr, again.ids)) == list(map(repr, scores.ids))
    assert again.values.tolist() == scores.values.tolist()
    names = ("strategy", "options", "seed", "model", "regime", "classes", "gradients", "shard")
    names += ("conditions",)
    assert all(getattr(again, name) == getattr(scores, name) for name in names)


def test_scores_of_no_model_come_back_too(model, pool, tmp_path):
    part_of(model, pool, "1/1", "random").save(tmp_path / "part.npz")
    assert steepest.Scores.load(tmp_path / "part.npz").regime is None


def test_choosing_from_shards_warns_of_the_regime_as_select_does(model, pool):
    weak = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    with torch.no_grad():
        weak[1].weight /= 20
    merged = steepest.Scores.merge(parts_of(weak, pool, strategy="entropy-gradnorm"))
    with pytest.warns(RegimeWarning, match="entropy-gradnorm ranks"):
        merged.select(3)
    steepest.Scores.merge(parts_of(weak, pool, strategy="random")).select(3)


def test_what_does_not_make_a_whole_is_refused(model, pool):
    merge = steepest.Scores.merge
    first, second, third = (part_of(model, pool, f"{n}/3") for n in (1, 2, 3))
    with pytest.raises(InputError, match="shard 2/3 are missing"):
        merge([first, third])
    with pytest.raises(InputError, match="shard 1/3 is there twice"):
        merge([first, first, second, third])
    with pytest.raises(InputError, match="of 2 and 3 shards"):
        merge([first, part_of(model, pool, "2/2")])
    with pytest.raises(InputError, match="no scores to merge"):
        merge([])
    for changes, what in (({"seed": 5}, "seed 5"), ({"strategy": "entropy"}, "strategy 'entropy'")):
        with pytest.raises(InputError, match=f"shard 2/3 was scored with {what}"):
            merge([first, part_of(model, pool, "2/3", **changes), third])
    for changes, what in (
        ({"batch_size": 4}, "batch size 4"),
        ({"precision": "bf16"}, "precision 'bf16'"),
    ):
        with pytest.raises(InputError, match=f"shard 2/3 was scored with {what}"):
            merge([first, part_of(model, pool, "2/3", **changes), third])
    with pytest.raises(InputError, match=r"shard 2/3 was scored with pool .* values read"):
        merge([first, part_of(model, pool / 2, "2/3"), third])
    elsewhere = replace(second.conditions, device="NVIDIA H200")
    with pytest.raises(InputError, match=r"with device 'NVIDIA H200'.*devices of one kind"):
        merge([first, replace(second, conditions=elsewhere), third])
    with pytest.raises(InputError, match="shard 2/3 does not say how it was scored"):
        merge([first, replace(second, conditions=None), third])
    moved = part_of(model, pool, "2/3", labelled=IDS[30:50])
    with pytest.raises(InputError, match="samples in common"):
        merge([first, moved, third])
    with pytest.raises(InputError, match="shard 2/3 alone"):
        second.select(2)


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_shard_is_one_of_several(model, pool, shard):
    with pytest.raises(InputError, match="such as 1/4"):
        part_of(model, pool, shard)


def test_there_are_no_more_shards_than_batches(model, pool):
    with pytest.raises(InputError, match="cannot be shared by 10 shards: make no more than 9"):
        part_of(model, pool, "1/10")


@pytest.mark.parametrize("name", ["stochastic", "vaal", "isal", "ll4al", "badge"])
def test_strategies_that_look_at_more_than_a_sample_have_no_shards(model, pool, name):
    with pytest.raises(InputError, match=f"{name} looks at more of the pool"):
        part_of(model, pool, "1/3", name)


def test_files_of_scores_end_in_npz(model, pool, tmp_path):
    scores = part_of(model, pool, "1/1")
    for use in (scores.save, steepest.Scores.load):
        with pytest.raises(InputError, match=r"c\.csv: scores are saved as \.npz"):
            use(tmp_path / "c.csv")
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_of_scores_is_refused(tmp_path):
    for name, content in (("a.npz", b"PK\x03\x04"), ("b.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} holds no scores"):
            steepest.Scores.load(tmp_path / name)
    with pytest.raises(InputError, match=r"e\.npz cannot be read: No such file"):
        steepest.Scores.load(tmp_path / "e.npz")
    (tmp_path / "d.npz").write_bytes(pickle.dumps({}))
    with pytest.raises(InputError, match="holds no scores"):
        steepest.Scores.load(tmp_path / "d.npz")

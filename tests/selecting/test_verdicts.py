"""Every selection says how its picks are spread over the classes that the model predicts."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.labelling.exchange.rounds import (
    Round,
    part_of,
    put_together,
    round_from_table,
    round_to_table,
)
from steepest.strategies import Choice, Strategy
from steepest.tasks import MultiLabel

NAMES = ("car", "boat", "tree", "sky")


class Boats(nn.Module):
    """Surest of all classes but boats, which are 60 of 400 samples."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        boats = nn.functional.one_hot(x[:, 0].long(), 4) * torch.where(x[:, :1] == 1, 0.5, 4.0)
        return (boats + 0.01 * x[:, 1:]) * self.scale


@pytest.fixture
def pool():
    generator = torch.Generator().manual_seed(0)
    classes = torch.tensor([0, 1, 2, 3]).repeat_interleave(torch.tensor([120, 60, 120, 100]))
    return torch.cat([classes[:, None], torch.randn(400, 4, generator=generator)], 1)


def choose(pool, strategy="margin", k=40, **more):
    return steepest.select(Boats(), pool, k, strategy, progress=False, **more)


def test_a_selection_of_one_class_says_so(pool):
    picks = choose(pool, class_names=NAMES)
    assert {int(pool[i, 0]) for i in picks.ids} == {1}
    assert picks.verdict.lopsided
    assert picks.verdict.sentence == (
        "40 of 40 picks are predicted as 'boat' (6 expected at random): try a strategy with "
        "coverage such as 'badge' or 'cluster-margin'."
    )
    assert choose(pool).verdict.sentence.startswith("40 of 40 picks are predicted as class 1 (6 ")


def test_what_is_expected_follows_from_the_candidates(pool):
    taken = range(120, 170)  # 50 of 60 boats
    found = choose(pool, k=10, labelled=taken).verdict
    assert found.spread[0].expected == pytest.approx(10 * 10 / 350)
    few = choose(pool, k=10, subset=100)
    (boats,) = few.verdict.spread
    everyone = choose(pool, k=100, subset=100).verdict.spread
    all_boats = next(c.picks for c in everyone if c.label == 1)
    assert boats.expected == pytest.approx(all_boats / 10)


def test_batches_and_shards_have_the_same_verdict(pool):
    whole = choose(pool, class_names=NAMES)
    assert choose(pool, class_names=NAMES, batch_size=7) == whole
    parts = [
        steepest.score(Boats(), pool, "margin", shard=f"{n}/3", batch_size=64, progress=False)
        for n in (3, 1, 2)
    ]
    assert steepest.Scores.merge(parts).select(40, NAMES).verdict == whole.verdict


def test_scores_keep_what_the_verdict_takes(pool, tmp_path):
    steepest.score(Boats(), pool, "margin", progress=False).save(tmp_path / "s.npz")
    loaded = steepest.Scores.load(tmp_path / "s.npz")
    assert loaded.select(40) == choose(pool)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_the_verdict_is_saved(pool, tmp_path, suffix):
    picks = choose(pool, class_names=NAMES)
    picks.save(tmp_path / f"picks{suffix}")
    beside = tmp_path / ("picks.csv.json" if suffix == ".csv" else "picks.json")
    told = json.loads(beside.read_text())["verdict"]
    assert told["sentence"] == picks.verdict.sentence
    assert told["spread"] == [{"label": 1, "name": "boat", "picks": 40, "expected": 6.0}]
    assert steepest.Selection.load(tmp_path / f"picks{suffix}") == picks


def test_batch_strategies_have_a_verdict_and_no_remedy(pool):
    head = nn.Linear(5, 4)
    found = steepest.select(head, pool, 40, "badge", progress=False).verdict
    predicted = head(pool).argmax(1)
    most = found.spread[0]
    assert most.expected == pytest.approx(int((predicted == most.label).sum()) / 10)
    assert sum(c.picks for c in found.spread) == 40
    assert "try a strategy" not in found.sentence


def test_nothing_is_said_where_no_class_is_predicted(pool):
    assert choose(pool, "random").verdict is None
    assert choose(pool, task=MultiLabel(4)).verdict is None
    maps = nn.Conv2d(1, 3, 1)
    images = torch.randn(6, 1, 2, 2)
    assert steepest.select(maps, images, 2, "margin", progress=False).verdict is None


@dataclass(frozen=True)
class Spoken(Strategy):
    """One that says why."""

    def choose(self, pool, k):
        pool.collect(lambda batch: batch.logits.sum(1))
        return Choice(np.arange(k), np.zeros(k), said="The first ones were taken.")


def test_a_strategy_may_say_a_sentence_of_its_own(pool):
    sentence = choose(pool, Spoken()).verdict.sentence
    assert sentence.startswith("The first ones were taken. ")
    assert " of 40 picks are predicted as class " in sentence


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "2 class names for a model with 4 outputs"),
        ("abcd", "class_names is a str: give a list"),
        (["a", "b", "c", 4], "class_names holds 4"),
    ],
)
def test_names_that_do_not_fit_are_refused_at_the_first_batch(pool, names, message):
    shown = []
    net = Boats()
    net.register_forward_hook(lambda *_: shown.append(1))
    with pytest.raises(InputError, match=message):
        steepest.select(net, pool, 5, "margin", class_names=names, batch_size=5, progress=False)
    assert len(shown) <= 2


def test_parts_of_a_round_have_no_verdict_on_the_whole(pool):
    made = Round(choose(pool, class_names=NAMES))
    read = round_from_table(json.loads(json.dumps(round_to_table(made))), "round 0")
    assert read == made
    assert part_of(read, made.picks.ids).picks.verdict == made.picks.verdict
    part = part_of(read, made.picks.ids[1:])
    assert part.picks.verdict is None
    assert put_together([(0, made)]).verdict == made.picks.verdict
    assert put_together([(0, part), (1, made)]).verdict is None

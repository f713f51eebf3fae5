"""Selections on disk, ties, and the regime diagnosis."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import steepest
from steepest.core.seeds import random_subset
from steepest.errors import InputError, RegimeWarning
from steepest.selecting.regime import Regime, describe_inversion, diagnose
from steepest.strategies import create
from steepest.strategies.algorithms import top_k


@pytest.fixture(params=["int", "str"])
def picks(request):
    ids = (3, 1, 2) if request.param == "int" else ("a,b.png", 'quote".png', "ü\nline.png")
    return steepest.Selection(
        ids=ids,
        scores=(0.1 + 0.2, 1e-300, 0.0),
        strategy="entropy-gradnorm",
        options={"norm": "tensor-sum"},
        seed=5,
        model="abc",
        regime=Regime(entropy_ratio=0.25, rank_correlation=None, samples=9),
        candidates=9,
    )


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_selections_come_back_as_they_went(picks, suffix, tmp_path):
    path = tmp_path / f"picks{suffix}"
    picks.save(path)
    assert steepest.Selection.load(path) == picks


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("seed", [np.int64(7), -1, 2**70])
def test_selections_of_every_seed_come_back(seed, suffix, tmp_path):
    chosen = steepest.select(nn.Linear(2, 3), torch.zeros(5, 2), 2, seed=seed, progress=False)
    chosen.save(tmp_path / f"picks{suffix}")
    assert steepest.Selection.load(tmp_path / f"picks{suffix}") == chosen
    assert chosen.seed == seed


@pytest.mark.parametrize("seed", [1.5, None, "3", True])
def test_a_seed_that_could_not_be_read_again_is_refused(seed):
    model, pool = nn.Linear(2, 3), torch.zeros(5, 2)
    with pytest.raises(InputError, match="seed must be a whole number"):
        steepest.select(model, pool, 2, "margin", seed=seed, progress=False)
    with pytest.raises(InputError, match="seed must be a whole number"):
        steepest.score(model, pool, "margin", seed=seed, progress=False)
    with pytest.raises(InputError, match="seed must be a whole number"):
        steepest.ActiveLoop(pool, fit=lambda ids, labels: model, seed=seed)


def test_csv_has_one_row_per_sample_and_its_settings_beside_it(picks, tmp_path):
    picks.save(tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["rank", "id", "score"]
    assert rows[1:] == [
        [str(rank), str(name), repr(score)]
        for rank, name, score in zip(picks.ranks, picks.ids, picks.scores, strict=True)
    ]
    beside = json.loads((tmp_path / "p.csv.json").read_text())
    assert {name: beside[name] for name in ("strategy", "options", "seed", "model")} == {
        "strategy": "entropy-gradnorm",
        "options": {"norm": "tensor-sum"},
        "seed": 5,
        "model": "abc",
    }
    assert (beside["candidates"], beside["steepest"]) == (9, steepest.__version__)
    assert beside["regime"]["entropy_ratio"] == 0.25
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "p.csv.json"]


def test_a_table_without_its_settings_or_with_those_of_another_is_refused(picks, tmp_path):
    load, table, beside = steepest.Selection.load, tmp_path / "p.csv", tmp_path / "p.csv.json"
    picks.save(table)
    told, lines = beside.read_text(), table.read_text()
    table.write_text(lines.replace("1e-300", "2e-300"))
    with pytest.raises(InputError, match=r"p\.csv is not what p\.csv\.json was written with"):
        load(table)
    replace(picks, ids=picks.ids[:2], scores=picks.scores[:2]).save(table)
    beside.write_text(told)
    with pytest.raises(InputError, match=r"p\.csv is not what p\.csv\.json was written with"):
        load(table)
    beside.unlink()
    with pytest.raises(InputError, match=r"p\.csv\.json is missing, which holds the settings of"):
        load(table)
    picks.save(table)
    for damaged in ("[]", "{", "{}", told.replace('"count"', '"number"')):
        beside.write_text(damaged)
        with pytest.raises(InputError, match=r"p\.csv is no selection"):
            load(table)


def test_a_selection_is_shown_in_one_short_line():
    ids = tuple(f"scan-{i:03d}" for i in range(500))
    picks = steepest.Selection(ids, tuple(1 / (i + 3) for i in range(500)), "margin", candidates=9)
    assert (
        repr(picks)
        == str(picks)
        == (
            "<Selection: 500 of 9 samples by margin: 'scan-000' (0.333), 'scan-001' (0.25), "
            "'scan-002' (0.2), …>"
        )
    )
    far = "photos/" * 30 + "a.png"
    two = steepest.Selection((7, far), (float("nan"), 1e-12), "random", candidates=1)
    assert repr(two).startswith("<Selection: 2 of 1 sample by random: 7, '…")
    assert repr(two).endswith("photos/a.png' (1e-12)>")
    assert len(repr(two)) < 120


def test_scores_are_shown_in_one_short_line():
    scores = steepest.score(nn.Linear(2, 3), torch.zeros(9000, 2), "entropy", progress=False)
    assert repr(scores).startswith("<Scores: 9000 samples by entropy: ")
    assert len(repr(scores)) < 70
    part = steepest.score(
        nn.Linear(2, 3), torch.zeros(9, 2), "random", shard="2/3", batch_size=3, progress=False
    )
    assert repr(part).startswith("<Scores: 3 samples of shard 2/3 by random: ")


def test_what_is_no_selection_is_refused(tmp_path):
    for name, text in {
        "a.csv": "x,y\n1,2\n",
        "b.json": "[]",
        "c.json": "{",
        "d.csv": "",
        "e.json": '{"ids": 3}',
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=name):
            steepest.Selection.load(tmp_path / name)
    with pytest.raises(InputError, match=r"\.csv or \.json"):
        steepest.Selection.load(tmp_path / "f.txt")
    with pytest.raises(InputError, match="missing"):
        steepest.Selection.load(tmp_path / "missing.csv")


def test_ties_are_broken_by_a_draw_that_follows_the_id():
    values = np.zeros(50)
    ids = list(range(50))
    first = [ids[i] for i in top_k(values, ids, 10, seed=1)]
    backwards = ids[::-1]
    assert [backwards[i] for i in top_k(values, backwards, 10, seed=1)] == first
    assert [ids[i] for i in top_k(values, ids, 10, seed=2)] != first
    assert first != ids[:10]


def test_top_k_takes_the_highest_first():
    values = np.array([0.5, 2.0, -1.0, 3.0])
    assert top_k(values, range(4), 3, seed=0).tolist() == [3, 1, 0]


def test_subsets_are_uniform_and_follow_the_id():
    counts = np.zeros(12)
    for seed in range(400):
        rows = random_subset(range(12), 4, seed)
        assert len(set(rows.tolist())) == 4
        counts[rows] += 1
    assert counts.min() > 90
    assert set(random_subset(range(5), 9, 0)) == set(range(5))


def test_regime_is_spearmans_correlation_and_the_share_of_the_maximum():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, 40).astype(float), rng.integers(0, 6, 40).astype(float)
    found = diagnose(a, b, classes=4)
    assert found.rank_correlation == pytest.approx(spearmanr(a, b).statistic)
    assert found.entropy_ratio == pytest.approx(b.mean() / np.log(4))
    assert diagnose(a, np.ones(40), classes=4).rank_correlation is None


@pytest.mark.parametrize(
    ("correlation", "inverted"), [(None, False), (0.3, False), (-0.09, False), (-0.1, True)]
)
def test_an_order_counts_as_inverted_from_a_correlation_on(correlation, inverted):
    regime = Regime(entropy_ratio=0.9, rank_correlation=correlation, samples=5)
    assert regime.inverted is inverted
    said = describe_inversion(regime, create("entropy-gradnorm"))
    assert (said is not None) is inverted
    if said is not None:
        assert (
            "somewhat lower than others (rank correlation with entropy -0.10, mean entropy 90%"
            in said
        )
        assert said.endswith("use 'margin' or 'entropy' until it has learnt more")


def test_only_gradient_norms_can_be_upside_down():
    regime = Regime(entropy_ratio=0.9, rank_correlation=-0.8, samples=5)
    for of in ("entropy", "entropy-gradnorm"):
        said = describe_inversion(regime, create("stochastic", {"of": of}))
        assert (said is None) is (of == "entropy")
        assert said is None or "uncertain samples last (" in said
    assert describe_inversion(regime, create("margin")) is None
    assert describe_inversion(None, create("entropy-gradnorm")) is None


def test_a_weak_model_is_diagnosed_with_a_remedy():
    torch.manual_seed(0)
    model = nn.Linear(6, 10)
    with torch.no_grad():
        model.weight.mul_(0.1)
    pool = torch.randn(200, 6)
    with pytest.warns(RegimeWarning, match="use 'margin'"):
        picks = steepest.select(model, pool, 10, "entropy-gradnorm", progress=False)
    assert picks.regime.rank_correlation < -0.5
    assert picks.regime.entropy_ratio > 0.9
    assert picks.regime.samples == 200
    assert steepest.select(model, pool, 10, "random", progress=False).regime is None
    remedy = steepest.select(model, pool, 10, "margin", progress=False).regime
    assert remedy.rank_correlation > 0.5

"""Measuring how strategies choose from pools that grow."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
import torch

from steepest.bench import other_implementations, strategies
from steepest.bench.feature_pool import make_head, make_pool
from steepest.bench.other_implementations import SKACTIVEML, compare_picks
from steepest.bench.strategies import Settings, StrategiesBench, StrategiesResult, strategies_table
from steepest.bench.strategy_trial import run_trial
from steepest.cli.main import main
from steepest.core.memory import Measurement
from steepest.core.progress import SilentProgress
from steepest.errors import InputError
from steepest.strategies.algorithms.k_centre import k_centre

CPU = torch.device("cpu")
JOB = {
    "strategy": "entropy",
    "kind": "ours",
    "options": {},
    "pool": 50,
    "labelled": 10,
    "k": 5,
    "features": 32,
    "classes": 3,
    "seed": 0,
    "device": "cpu",
    "threads": 1,
}


def settings(**more):
    given = {"strategies": ("random",), "pools": (40, 80), "device": CPU, "threads": 1}
    return Settings(**{**given, "features": 32, "labelled": 8, "k": 4, **more})


def test_a_smaller_pool_is_the_beginning_of_a_larger_one():
    small, large = make_pool(20, 32, seed=1), make_pool(70_000, 32, seed=1)
    assert torch.equal(large[:20], small)
    assert large.shape == (70_000, 8, 2, 2)
    assert not torch.equal(make_pool(20, 32, seed=2), small)


def test_a_trial_tells_seconds_and_memory():
    found = run_trial(JOB)
    assert found["status"] == "measured"
    assert found["prepare_seconds"] is None
    assert found["choose_seconds"] > 0
    assert found["peak_mib"] >= 0


@pytest.mark.parametrize(("threads", "seconds"), [(1, 2.0), (2, 30.0)])
def test_a_single_thread_is_timed_by_the_core_it_held(threads, seconds, monkeypatch):
    spent = Measurement(seconds=30.0, peak_bytes=0, core_seconds=2.0)
    monkeypatch.setattr("steepest.bench.strategy_trial._ours", lambda *_: (spent, spent, []))
    before = torch.get_num_threads()
    found = run_trial({**JOB, "threads": threads})
    torch.set_num_threads(before)
    assert found["prepare_seconds"] == found["choose_seconds"] == seconds


def test_a_refusal_is_told_in_the_words_of_the_refusal(monkeypatch):
    def refuse(*_):
        raise InputError("not with so many samples")

    monkeypatch.setattr("steepest.bench.strategy_trial.choose_from", refuse)
    assert run_trial(JOB) == {"status": "refused", "note": "not with so many samples"}


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [("core-set", "straightforward"), *((s, "skactiveml") for s in SKACTIVEML)],
)
@pytest.mark.usefixtures("skactiveml")
def test_no_memory_for_what_is_written_out_is_told_before_it_is_made(strategy, kind, monkeypatch):
    monkeypatch.setattr("steepest.bench.measuring.free_bytes", lambda _: 100)
    found = run_trial({**JOB, "strategy": strategy, "kind": kind})
    assert found["status"] == "out-of-memory"
    assert "needs" in found["note"]


def test_the_straightforward_way_is_as_warm_as_ours(monkeypatch):
    seen = []
    monkeypatch.setitem(
        other_implementations.STRAIGHTFORWARD, "core-set", lambda *given: seen.append(len(given[1]))
    )
    run_trial({**JOB, "strategy": "core-set", "kind": "straightforward"})
    assert seen == [20, 60]


def test_the_straightforward_core_set_picks_what_ours_does():
    pool = make_pool(60, 32, seed=3)
    model = make_head(32, 3, seed=3)
    plain = other_implementations.core_set(model, pool, 10, 8)
    rows = pool.flatten(1)
    found = k_centre(rows[10:], 8, centres=rows[:10])
    assert [int(p) + 10 for p in found.positions] == plain


@pytest.fixture
def skactiveml(monkeypatch):
    """A stand-in for the package that takes the first k candidates and tells what it was given."""
    calls = []

    class Asked:
        def __init__(self, **options):
            self.options = options

        def query(self, rows, targets, batch_size, clf=None, fit_clf=None):
            free = np.flatnonzero(np.isnan(targets))
            shares = None if clf is None else clf.predict_proba(rows[free])
            given = {"kind": type(self).__name__, "rows": rows, "free": free, "shares": shares}
            calls.append({**given, "fit": fit_clf, **self.options})
            return free[:batch_size]

    class SkactivemlClassifier:
        def __init__(self, classes):
            self.classes = classes

    package, pool, base = (types.ModuleType(f"skactiveml{s}") for s in ("", ".pool", ".base"))
    for kind in {kind for kind, _ in SKACTIVEML.values()}:
        setattr(pool, kind, type(kind, (Asked,), {}))
    base.SkactivemlClassifier = SkactivemlClassifier
    for module in (package, pool, base):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


@pytest.mark.parametrize("strategy", SKACTIVEML)
def test_scikit_activeml_is_given_what_ours_is_and_as_warm(strategy, skactiveml):
    found = run_trial({**JOB, "strategy": strategy, "kind": "skactiveml"})
    assert found["status"] == "measured"
    assert found["picks"] == [10, 11, 12, 13, 14]
    few, call = skactiveml
    assert (len(few["rows"]), len(call["rows"])) == (20, 60)
    assert (call["kind"], call["random_state"]) == (SKACTIVEML[strategy][0], 0)
    assert call["free"].tolist() == list(range(10, 60))
    rows = make_pool(60, 32, seed=0).flatten(1)
    if strategy == "probcover":
        rows = torch.nn.functional.normalize(rows)
    assert np.array_equal(call["rows"], rows.numpy())
    if call["shares"] is not None:
        logits = make_head(32, 3, seed=0)(rows[10:]).detach()
        assert call["fit"] is False
        assert np.allclose(call["shares"], logits.softmax(1).numpy(), atol=1e-6)


@pytest.mark.parametrize("strategy", SKACTIVEML)
def test_the_same_picks_are_as_good_and_others_are_judged_where_there_are_distances(strategy):
    job = {**JOB, "strategy": strategy}
    same = compare_picks(job, [10, 11, 12], [12, 11, 10])
    assert (same.distinct, same.same, str(same)) == (3, 3, "3 of 3 picks are ours")
    assert (same.mean, same.largest) == (same.our_mean, same.our_largest)
    fewer = compare_picks(job, [10, 11, 12], [20, 20, 10])
    assert (fewer.distinct, fewer.same) == (2, 1)
    scored = strategy in ("entropy", "least-confidence", "margin")
    assert (fewer.mean is None) == scored
    assert ("on average" in str(fewer)) != scored


def test_the_cover_radius_is_the_largest_distance_to_a_labelled_or_chosen_sample():
    found = compare_picks({**JOB, "strategy": "core-set"}, [59], [30])
    rows = make_pool(60, 32, seed=0).flatten(1)
    near = torch.cdist(rows[10:], rows[[*range(10), 30]]).amin(1)
    assert found.largest == pytest.approx(float(near.max()))
    assert found.mean == pytest.approx(float(near.mean()))


def test_ways_take_turns_and_picks_are_compared_with_ours_of_that_pool(monkeypatch):
    tried = []

    def answer(job, limit):
        tried.append((job["pool"], job["kind"]))
        if tried[-1] == (80, "ours"):
            raise strategies.subprocess.TimeoutExpired("trial", limit)
        picks = [8, 9, 10, 11] if job["kind"] == "ours" else [10, 11, 12, 13]
        return {"status": "measured", "choose_seconds": 1.0, "peak_mib": 1.0, "picks": picks}

    monkeypatch.setattr(strategies, "_in_child", answer)
    monkeypatch.setattr(strategies, "find_spec", lambda _: True)
    result = StrategiesBench(settings(strategies=("margin",)), SilentProgress()).run()
    assert tried == [(p, kind) for p in (40, 80) for kind in ("ours", "skactiveml")]
    _, theirs, _, alone = result.measurements
    assert theirs.picks.same == 2
    assert alone.picks is None
    text = strategies_table(result).text()
    assert "(skactiveml): the head as its classifier, not fitted again; 40: 2 of 4 picks" in text


def test_larger_pools_are_left_out_after_one_that_did_not_end(monkeypatch):
    tried = []

    def give_up(job, limit):
        tried.append(job["pool"])
        raise strategies.subprocess.TimeoutExpired("trial", limit)

    monkeypatch.setattr(strategies, "_in_child", give_up)
    result = StrategiesBench(settings(), SilentProgress()).run()
    assert tried == [40]
    assert [m.status for m in result.measurements] == ["timed-out", "timed-out"]
    assert result.complete


def test_growth_is_the_slope_over_pools(monkeypatch):
    def linear(job, _):
        return {"status": "measured", "choose_seconds": job["pool"] / 1e3, "peak_mib": 1.0}

    monkeypatch.setattr(strategies, "_in_child", linear)
    result = StrategiesBench(settings(pools=(40, 400)), SilentProgress()).run()
    row = next(x for x in strategies_table(result).text().splitlines() if x.startswith("random"))
    assert row.split()[-1] == "1.00"


def test_preparing_shortened_trainings_and_refusals_are_told(monkeypatch):
    def answer(job, _):
        if job["pool"] > 40:
            return {"status": "refused", "note": "too many"}
        return {"status": "measured", "prepare_seconds": 7.5, "choose_seconds": 0.25, "peak_mib": 1}

    monkeypatch.setattr(strategies, "_in_child", answer)
    chosen = settings(strategies=("uncertain-gcn",))
    text = strategies_table(StrategiesBench(chosen, SilentProgress()).run()).text()
    assert "7.5 + 0.25" in text
    assert "uncertain-gcn: epochs = 20; 80: refused: too many" in text


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("batchbald", "batchbald: k = 10"),
        ("core-gcn", "core-gcn (straightforward): the graph and one product with it, without"),
    ],
)
def test_what_is_less_than_the_whole_is_told(strategy, told, monkeypatch):
    def answer(job, _):
        return {"status": "measured", "choose_seconds": job["k"], "peak_mib": 1}

    monkeypatch.setattr(strategies, "_in_child", answer)
    chosen = settings(strategies=(strategy,), k=20)
    text = strategies_table(StrategiesBench(chosen, SilentProgress()).run()).text()
    assert text.splitlines()[-1].strip().startswith(told)


@pytest.mark.parametrize(
    ("wrong", "words"), [({"pools": (3,)}, "at least k"), ({"features": 100}, "height")]
)
def test_settings_that_cannot_be_used_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        settings(**wrong)


def test_the_command_writes_what_can_be_read_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "skactiveml", None)
    out = tmp_path / "numbers.json"
    code = main(
        ["bench", "strategies", "--smoke", "--strategies", "margin", "--pool-sizes", "30",
         "--quiet", "--out", str(out)]
    )  # fmt: skip
    assert code == 0
    remedy = "run pip install 'steepest[bench]'"
    assert f"margin (skactiveml): absent: scikit-activeml is not installed: {remedy}" in (
        capsys.readouterr().out
    )
    result = StrategiesResult.read(out)
    assert result.complete
    assert [m.kind for m in result.measurements] == ["ours", "skactiveml"]
    assert [m.status for m in result.measurements] == ["measured", "absent"]
    assert json.loads(out.read_text())["k"] == 5


def test_an_unknown_strategy_is_named(capsys):
    assert main(["bench", "strategies", "--strategies", "corset"]) == 2
    assert "did you mean 'core-set'" in capsys.readouterr().err

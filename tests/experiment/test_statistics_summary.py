from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from made_runs import BUDGETS, CURVES, make_comparison, make_entry

from steepest.errors import RunFolderError
from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.statistics import aubc, summarise
from steepest.tasks.base import TASKS, Task


def rename_metrics(made: Comparison, task: str, metric: str) -> Comparison:
    """Let the task's own metric be what accuracy was, beside an accuracy that says otherwise."""
    runs = {
        key: replace(run, entries=tuple(
            {**e, "metrics": {"accuracy": 1 - e["metrics"]["accuracy"],
                              metric: e["metrics"]["accuracy"]}}
            for e in run.entries
        ))
        for key, run in made.runs.items()
    }  # fmt: skip
    return replace(made, runs=runs, config={"task": {"name": task}})


@pytest.mark.parametrize(
    ("task", "metric"), [("segmentation", "miou"), ("multi-label", "mean_average_precision")]
)
def test_every_number_follows_the_headline_metric_of_the_task(task, metric):
    by_accuracy = summarise(make_comparison())
    by_metric = summarise(rename_metrics(make_comparison(), task, metric))
    assert (by_accuracy.metric, by_metric.metric) == ("accuracy", metric)
    assert replace(by_metric, metric="accuracy") == by_accuracy


@pytest.mark.parametrize("config", [{}, {"task": {}}, {"task": "segmentation"}, {"task": None}])
def test_without_a_task_accuracy_counts(config):
    assert summarise(make_comparison(config=config)).metric == "accuracy"


def test_a_task_of_one_s_own_counts_by_what_it_says_or_else_by_accuracy(monkeypatch):
    TASKS.names()
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    TASKS.register("plain")(type("Plain", (Task,), {"name": "plain"}))
    own = {"name": "own", "headline": "dice", "per_class": "dice_by_organ"}
    TASKS.register("own")(type("Own", (Task,), own))
    plain = make_comparison(config={"task": {"name": "plain"}})
    assert (plain.metric, plain.per_class_metric) == ("accuracy", "per_class_accuracy")
    made = rename_metrics(make_comparison(), "own", "dice")
    assert (made.metric, made.per_class_metric) == ("dice", "dice_by_organ")
    assert summarise(made).strategies == summarise(make_comparison()).strategies


def test_every_strategy_is_summed_up_over_all_seeds():
    summary = summarise(make_comparison())
    margin = summary.strategies[1]
    areas = [aubc(BUDGETS, curve) for curve in CURVES["margin"]]
    assert [s.strategy for s in summary.strategies] == ["random", "margin", "entropy"]
    assert (summary.n, summary.runs_complete, summary.runs_expected) == (3, 9, 9)
    assert margin.aubc.values == pytest.approx(areas)
    assert margin.aubc.mean == pytest.approx(np.mean(areas))
    assert margin.aubc.sd == pytest.approx(np.std(areas, ddof=1))
    assert margin.final_value.mean == pytest.approx((0.8 + 0.8 + 0.69) / 3)
    assert margin.curve.budgets == BUDGETS
    assert margin.curve.mean[1] == pytest.approx((0.7 + 0.72 + 0.61) / 3)
    assert margin.curve.low[1] < margin.curve.mean[1] < margin.curve.high[1]


def test_labels_saved_average_the_seeds_that_reached_the_target():
    summary = summarise(make_comparison())
    random, margin, _ = summary.strategies
    assert random.labels_saved is None
    assert margin.labels_saved is not None
    assert margin.labels_saved.values[:2] == pytest.approx((20, 20))
    assert margin.labels_saved.values[2] is None
    assert margin.labels_saved.mean == pytest.approx(20)
    assert margin.labels_saved.reached == 2


def test_labels_of_the_baseline_are_averaged_over_the_same_seeds():
    curves = {
        "random": [[0.5, 0.6, 0.7], [0.5, 0.9, 0.9]],
        "margin": [[0.5, 0.7, 0.8], [0.5, 0.6, 0.7]],
    }
    saved = summarise(make_comparison(curves)).strategies[1].labels_saved
    assert saved is not None
    assert saved.values == (pytest.approx(20), None)
    assert (saved.needed, saved.baseline_needed) == (pytest.approx(40), pytest.approx(60))


def test_time_is_summed_over_a_run_and_memory_is_the_peak():
    margin = summarise(make_comparison()).strategies[1]
    assert margin.scoring_seconds is not None
    assert margin.training_seconds is not None
    assert margin.scoring_seconds.mean == pytest.approx(1.0)
    assert margin.training_seconds.mean == pytest.approx(6.0)
    assert margin.scoring_peak_bytes == 101
    assert margin.auxiliary_seconds is None  # Nothing was measured, which is not 0 seconds.


def test_contrasts_hold_all_strategies_against_random_with_holm_per_measure():
    summary = summarise(make_comparison())
    assert [(c.strategy, c.measure) for c in summary.contrasts] == [
        ("margin", "aubc"),
        ("entropy", "aubc"),
        ("margin", "final_value"),
        ("entropy", "final_value"),
    ]
    for pair in (summary.contrasts[:2], summary.contrasts[2:]):
        raw = sorted(c.test.t_p for c in pair if c.test.t_p is not None)
        adjusted = sorted(c.t_p_holm for c in pair if c.t_p_holm is not None)
        assert adjusted[0] == pytest.approx(min(1.0, 2 * raw[0]))
    assert {c.baseline for c in summary.contrasts} == {"random"}


def test_a_strategy_without_any_complete_run_is_left_out():
    unfinished = [("entropy", seed) for seed in range(3)]
    summary = summarise(make_comparison(missing=unfinished[:2], cut=unfinished[2:]))
    assert [s.strategy for s in summary.strategies] == ["random", "margin"]
    assert summary.n == 3


def test_nothing_complete_gives_a_summary_without_strategies():
    everything = [(name, seed) for name in CURVES for seed in range(3)]
    summary = summarise(make_comparison(cut=everything))
    assert (summary.n, summary.strategies, summary.penalty, summary.contrasts) == (0, (), None, ())


def test_one_seed_has_no_spread_no_test_and_no_penalty():
    summary = summarise(make_comparison({name: curves[:1] for name, curves in CURVES.items()}))
    assert summary.n == 1
    assert summary.strategies[0].aubc.sd is None
    assert summary.penalty is None
    assert all(c.t_p_holm is None for c in summary.contrasts)


def test_without_random_the_first_strategy_is_the_baseline():
    summary = summarise(make_comparison({name: CURVES[name] for name in ("entropy", "margin")}))
    assert summary.baseline == "entropy"


def test_penalty_averages_leave_out_the_diagonal():
    noise = np.array([[-0.01], [0.0], [0.01]])
    base = np.full((3, 3), 0.5) + noise
    curves = {
        "random": base.tolist(),
        "good": (base + [0, 0.2, 0.2] + 0.1 * noise[::-1]).tolist(),
        "same": base.tolist(),
    }
    penalty = summarise(make_comparison(curves)).penalty
    assert penalty is not None
    assert penalty.strategies == ("random", "good", "same")
    assert penalty.matrix[1] == (1.0, 0.0, 1.0)
    assert penalty.wins == (0.0, 1.0, 0.0)
    assert penalty.losses == (0.5, 0.0, 0.5)
    assert penalty.budgets == 2


def test_a_win_of_the_penalty_matrix_is_one_at_five_percent():
    base = np.full((3, 2), 0.5)
    ahead = {
        gap: base + np.array([[0, 0.1 - gap], [0, 0.1], [0, 0.1 + gap]]) for gap in (0.03, 0.048)
    }
    wins = []
    for good in ahead.values():  # By the t-test, p is 0.029 and 0.069.
        penalty = summarise(
            make_comparison({"random": base.tolist(), "good": good.tolist()})
        ).penalty
        assert penalty is not None
        wins.append((penalty.wins[1], penalty.alpha))
    assert wins == [(1.0, 0.05), (0.0, 0.05)]


def test_runs_at_other_budgets_are_refused():
    mixed = make_comparison()
    odd = [make_entry(c, 0.5, last=c == 2, budgets=(20, 50, 90)) for c in range(3)]
    runs = {**mixed.runs, ("margin", 0): Run("margin", 0, tuple(odd))}
    with pytest.raises(RunFolderError, match=r"margin with seed 0 .* other budgets"):
        summarise(Comparison("test", mixed.strategies, mixed.seeds, runs, config={}))


def test_summary_survives_json_without_nan():
    for made in (make_comparison(), make_comparison({"random": [[0.5, 0.6, 0.7]]})):
        summary = summarise(made)
        text = json.dumps(summary.to_dict(), allow_nan=False)
        assert json.loads(text)["strategies"][0]["aubc"]["values"] == list(
            summary.strategies[0].aubc.values
        )

"""Which metric a comparison is about."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_runs import CURVES, make_comparison

from steepest.errors import InputError, UnknownNameError
from steepest.experiment.comparison import by_metric, check_metric
from steepest.experiment.statistics import summarise


def with_metrics(made, change):
    """Let the metrics of every record be what a function of them says."""
    runs = {
        key: replace(
            run, entries=tuple({**e, "metrics": change(e["metrics"])} for e in run.entries)
        )
        for key, run in made.runs.items()
    }
    return replace(made, runs=runs)


def by_class(metrics):
    """Return metrics of an older version, whose mean by class is 0.1 below the accuracy."""
    value = metrics["accuracy"]
    return {"accuracy": value, "loss": 1.0, "per_class_accuracy": [value, None, value - 0.2]}


def test_every_number_is_of_the_metric_that_was_chosen():
    made = with_metrics(make_comparison(), lambda m: {"accuracy": 0.1, "kappa": m["accuracy"]})
    chosen = by_metric(made, "kappa")
    assert (made.metric, chosen.metric) == ("accuracy", "kappa")
    assert replace(summarise(chosen), metric="accuracy") == summarise(make_comparison())


def test_without_a_choice_a_comparison_stays_what_it_is():
    made = make_comparison()
    assert by_metric(made, None) is made
    assert summarise(by_metric(made, "accuracy")) == summarise(made)


def test_balanced_accuracy_of_older_records_comes_from_the_classes():
    made = with_metrics(make_comparison(), by_class)
    summary = summarise(by_metric(made, "balanced_accuracy"))
    finals = [curve[-1] - 0.1 for curve in CURVES["margin"]]
    assert summary.metric == "balanced_accuracy"
    assert summary.strategies[1].final_value.values == pytest.approx(finals)
    assert "balanced_accuracy" not in made.runs["margin", 0].entries[0]["metrics"]


def test_a_balanced_accuracy_on_record_is_taken_as_it_is():
    made = with_metrics(make_comparison(), lambda m: {**by_class(m), "balanced_accuracy": 0.3})
    assert by_metric(made, "balanced_accuracy").curves("margin", [0]).tolist() == [[0.3] * 3]


def test_a_metric_that_a_record_does_not_have_is_refused_with_those_that_all_have():
    made = with_metrics(make_comparison(), by_class)
    told = (
        r"'kappa': random with seed 0 does not have it .* cycle 0; .* accuracy, balanced_accuracy$"
    )
    with pytest.raises(InputError, match=told):
        by_metric(made, "kappa")
    with pytest.raises(InputError, match=r"'balanced_accuracy': .* choose one of accuracy$"):
        by_metric(make_comparison(), "balanced_accuracy")
    with pytest.raises(InputError, match="does not have it on record"):
        by_metric(made, "per_class_accuracy")


def test_nothing_is_known_of_a_class_that_no_record_tested():
    made = with_metrics(make_comparison(), lambda m: {**m, "per_class_accuracy": [None, None]})
    with pytest.raises(InputError, match="does not have it on record"):
        by_metric(made, "balanced_accuracy")


def test_the_loss_is_not_compared():
    made = with_metrics(make_comparison(), by_class)
    with pytest.raises(InputError, match=r"less of it is better.* accuracy, balanced_accuracy$"):
        by_metric(made, "loss")


def test_the_metrics_of_a_task_are_known_before_anything_is_run():
    check_metric(None, ["classification"])
    check_metric("balanced_accuracy", ["classification"])
    check_metric("pixel_accuracy", ["segmentation"])
    with pytest.raises(UnknownNameError, match="did you mean 'balanced_accuracy'"):
        check_metric("balanced_acuracy", ["classification"])
    with pytest.raises(UnknownNameError, match="metric of segmentation 'balanced_accuracy'"):
        check_metric("balanced_accuracy", ["classification", "segmentation"])

"""A report speaks of the metric of its task, and of no other."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from fake_runs import make_entry, write_comparison, write_run

from steepest.experiment.report import numbers, read_comparison, summary_rows, write_report
from steepest.experiment.report.diagnosis import classes_section
from steepest.experiment.report.figures import draw_learning_curves, render
from steepest.experiment.report.headline import headline
from steepest.experiment.report.numbers import class_words_of, words_of
from steepest.experiment.report.results import _curve_numbers
from steepest.experiment.statistics import summarise

TASKS = ["classification", "segmentation", "multi-label"]
NAMES = {
    "classification": ("test accuracy", "accuracy", "Test accuracy"),
    "segmentation": ("mean IoU", "mean IoU", "IoU"),
    "multi-label": ("mean average precision", "mean average precision", "Average precision"),
}


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return request.param


@pytest.fixture(scope="module")
def folder(task, tmp_path_factory):
    return write_comparison(tmp_path_factory.mktemp("metric"), task=task)


def text_of(folder) -> str:
    """Return the words of a page, without its pictures and styles."""
    page = write_report(folder).html.read_text(encoding="utf-8")
    page = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]*>", " ", page)).replace("\u00a0", " ")
    return " ".join((*words.split(), *re.findall(r'aria-label="([^"]*)"', page)))


def test_the_page_names_the_metric_wherever_it_speaks_of_it(folder, task):
    name, short, by_class = NAMES[task]
    title = name[0].upper() + name[1:]
    text = text_of(folder)
    for said in (
        f"margin reached random's final {short} with",
        f"has the highest {short} averaged over the curve (AUBC)",
        f"{title} averaged over n = 3 seeds",
        f"{title} by number of labels, n = 3 seeds",
        f"{title} against the number of labelled samples for",
        f"strategy AUBC final {short} labels saved",
        f"the area under the curve of {short} over labels",
        f"needs to reach its final {short} for the first time, less those that the strategy",
        f"to reach random's final {short} with the same seed",
        f"margin final {short} +",
        f"{by_class} by class at the last cycle, mean over seeds (entropy-gradnorm: n = 3",
    ):
        assert said in text
    others = {word for other in TASKS if other != task for word in NAMES[other]}
    assert not [word for word in others if word not in NAMES[task] and f" {word} " in text]


def test_the_axis_names_the_metric_and_shows_its_values(folder, task):
    comparison = read_comparison(folder)
    summary = summarise(comparison)
    figure = draw_learning_curves(comparison, summary)
    assert NAMES[task][0] in {e.text for e in ET.fromstring(render(figure, "svg")).iter()}
    values = [comparison.runs["margin", seed].curve(summary.metric)[-1] for seed in range(3)]
    assert list(figure.axes[0].lines[1].get_ydata())[-1] == pytest.approx(sum(values) / 3)


def test_a_run_outside_of_the_statistics_is_drawn_by_its_metric(tmp_path, task):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), task=task, cut=[("margin", 0)])
    comparison = read_comparison(folder)
    line = draw_learning_curves(comparison, summarise(comparison)).axes[0].lines[0]
    drawn = [make_entry("margin", 0, c, 4, task)["metrics"][comparison.metric] for c in range(3)]
    assert list(line.get_ydata()) == drawn
    assert f"{words_of(comparison.metric).title} of the runs as far as" in text_of(folder)


def test_numbers_are_those_of_the_metric_that_counts(folder, task):
    summary = summarise(read_comparison(folder))
    finals = [
        make_entry("margin", seed, 3, 4, task)["metrics"][summary.metric] for seed in range(3)
    ]
    assert summary.strategies[1].final_value.values == tuple(finals)
    header, rows = summary_rows(summary)
    assert header[2] == f"final {NAMES[task][1]} ± sd"
    assert rows[1][2] == numbers.spread(summary.strategies[1].final_value)


def test_classes_are_judged_by_the_metric_of_the_task(tmp_path, task):
    comparison = read_comparison(write_run(tmp_path, "margin", 2, cycles=2, task=task))
    section = classes_section(comparison, summarise(comparison), ["sky", "road"])
    assert section is not None
    rows = re.findall(r'<th scope="row">(.*?)</th><td[^>]*>(.*?)</td>', section)
    values = make_entry("margin", 2, 1, 2, task)["metrics"][comparison.per_class_metric]
    assert [shown for _, shown in rows] == [numbers.share(value) for value in values]
    assert [name for name, _ in rows[:3]] == ["sky", "road", "class 2"]
    assert rows[0][1] == numbers.DASH  # margin never tested the first class


def test_one_run_is_told_by_the_metric_of_its_task(tmp_path, task):
    comparison = read_comparison(write_run(tmp_path, "margin", 2, cycles=3, task=task))
    (value,) = summarise(comparison).strategies[0].final_value.values
    first = headline(summarise(comparison))[0]
    assert first.startswith(f"margin reached a {NAMES[task][0]} of {value:.3f} with 80 labels")


def test_a_metric_without_words_of_its_own_is_called_by_its_key():
    assert words_of("macro_f1").name == "test macro f1"
    assert words_of("macro_f1").measure("final_value") == "final macro f1"
    assert words_of("macro_f1").measure("aubc") == "AUBC"
    assert class_words_of("per_class_dice") == "dice"
    assert class_words_of("dice_by_organ") == "dice by organ"


def test_intervals_of_shares_end_at_their_bounds_and_the_caption_says_so(tmp_path):
    summary = summarise(read_comparison(write_comparison(tmp_path, ["margin"], seeds=(0, 1))))
    (entry,) = summary.strategies
    wide = replace(entry, curve=replace(entry.curve, low=(-0.3,) * 4, high=(1.244,) * 4))
    for metric, bounds, said in (
        ("accuracy", "0.000 to 1.000", True),
        ("surprise", "-0.300 to 1.244", False),
    ):
        told = str(_curve_numbers(replace(summary, metric=metric, strategies=(wide,))))
        assert told.count(bounds) == 4
        assert ("cut off at 0 and 1" in told) is said
    narrow = replace(entry, curve=replace(entry.curve, low=(0.0,) * 4, high=(1.0,) * 4))
    assert "cut off" not in str(_curve_numbers(replace(summary, strategies=(narrow,))))

"""What a report says where strategies rest on different numbers of seeds."""

from __future__ import annotations

import html
import json
import re

import pytest
from fake_runs import write_comparison

from steepest.errors import UnknownNameError
from steepest.experiment.report import read_comparison, write_report
from steepest.experiment.report.headline import completeness
from steepest.experiment.statistics import summarise

FOUR = ("entropy-gradnorm", "margin", "random", "late")


def words_in(page: str) -> str:
    page = re.sub(r"<style.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", " ", page)).replace("\u00a0", " ")
    return " ".join(text.split())


def text_of(folder, **more) -> str:
    return words_in(write_report(folder, **more).html.read_text(encoding="utf-8"))


def cells_of(page: str, section: str) -> list[list[str]]:
    """Return the rows of a section's table as text, its header first."""
    part = page.split(f'<section id="{section}"')[1].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", part)
    return [[words_in(c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    gone = [("late", 1), ("late", 2), ("margin", 2)]
    return write_comparison(tmp_path_factory.mktemp("ragged"), FOUR, missing=gone)


@pytest.fixture(scope="module")
def page(folder):
    return write_report(folder).html.read_text(encoding="utf-8")


def test_captions_tell_the_fewest_and_the_most_seeds(page):
    text = words_in(page)
    for said in (
        "Test accuracy averaged over n = 1 to 3 seeds. Faint lines are the single seeds.",
        "Test accuracy by number of labels, n = 1 to 3 seeds, with 95 % interval",
        "Means, ± standard deviation over seeds, n = 1 to 3 seeds",
        "Paired tests against random, two-sided, n = 1 to 3 seeds",
        "Penalty matrix, n = 2 to 3 seeds",
        "may be of different seeds: compare them by the paired differences below",
        "margin (n = 2)",
        "mean over seeds (entropy-gradnorm: n = 3, margin: n = 2, random: n = 3, late: n = 1)",
        "With n = 2 seeds (margin) Wilcoxon's p cannot fall below 0.5:",
        "With n = 3 seeds (entropy-gradnorm) Wilcoxon's p cannot fall below 0.25:",
        "late, AUBC: one seed has no spread to judge by.",
    ):
        assert said in text


def test_tables_have_a_column_of_n(page):
    header, *rows = cells_of(page, "results")
    assert header[:3] == ["strategy", "n", "AUBC"]
    assert {row[0]: row[1] for row in rows} == {
        "entropy-gradnorm": "3", "margin": "2", "random": "3", "late": "1",
    }  # fmt: skip
    header, *rows = cells_of(page, "tests")
    assert header[:3] == ["strategy", "n", "measure"]
    assert [row[:3] for row in rows[:3]] == [
        ["entropy-gradnorm", "3", "AUBC"],
        ["margin", "2", "AUBC"],
        ["late", "1", "AUBC"],
    ]
    assert all(len(row) == len(header) for row in rows)


def test_pairs_that_were_not_judged_have_a_dash(page):
    _, *rows = cells_of(page, "penalty")
    assert rows[3] == ["late", "–", "–", "–", "–", "–"]
    assert rows[4][4] == "–"
    assert "–" not in rows[0][2:4]
    assert "does not count in the means" in words_in(page)


def test_the_same_seeds_for_all_need_no_column_of_n(tmp_path):
    page = write_report(write_comparison(tmp_path)).html.read_text(encoding="utf-8")
    assert cells_of(page, "results")[0][:2] == ["strategy", "AUBC"]
    assert cells_of(page, "tests")[0][:2] == ["strategy", "measure"]
    text = words_in(page)
    assert " to 3 seeds" not in text
    assert "different seeds" not in text
    assert "is not judged" not in text


def test_the_warning_names_the_seeds_of_each(folder):
    comparison = read_comparison(folder)
    assert completeness(comparison, summarise(comparison)) == (
        "9 of 12 runs complete. Statistics of a strategy use the seeds complete for it and for "
        "random: entropy-gradnorm 0, 1, 2; margin 0, 1; random 0, 1, 2; late 0."
    )


def test_a_strategy_without_a_seed_of_the_baseline_is_named(tmp_path):
    gone = [("margin", 0), ("margin", 1), ("random", 2)]
    comparison = read_comparison(write_comparison(tmp_path, missing=gone))
    told = completeness(comparison, summarise(comparison))
    assert told is not None
    assert "Without a complete seed that random has too, and so not compared: margin." in told
    assert told.endswith("Statistics use the seeds complete for every strategy compared: 0, 1.")


def test_no_seed_in_common_is_said_instead_of_a_comparison(tmp_path):
    gone = [("margin", 0), ("random", 1)]
    folder = write_comparison(tmp_path, ("margin", "random"), seeds=(0, 1), missing=gone)
    text = text_of(folder)
    assert "No comparison yet: no seed is complete for random and for another strategy." in text


def test_a_report_is_held_against_the_baseline_that_is_named(folder, tmp_path):
    files = write_report(folder, tmp_path, baseline="margin")
    text = words_in(files.html.read_text(encoding="utf-8"))
    assert "Paired tests against margin, two-sided" in text
    assert "labels saved (against margin)" in text
    assert "against random" not in text
    summary = json.loads(files.summary.read_text())
    assert summary["baseline"] == "margin"
    assert {entry["strategy"]: entry["n"] for entry in summary["strategies"]} == {
        "entropy-gradnorm": 2, "margin": 2, "random": 2, "late": 1,
    }  # fmt: skip


def test_an_unknown_baseline_writes_nothing(folder, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown baseline 'nobody'"):
        write_report(folder, tmp_path / "out", baseline="nobody")
    assert not (tmp_path / "out").exists()


def test_every_command_is_shown_once(tmp_path):
    folder = write_comparison(tmp_path, ("margin", "random"), seeds=(0,), cycles=2)
    path = folder / "comparison.json"
    head = json.loads(path.read_text())
    said = [head["command"], "steepest compare digits --seeds 5 <b>", head["command"], "", None]
    calls = [{"command": command, "versions": {"torch": str(k)}} for k, command in enumerate(said)]
    path.write_text(json.dumps({**head, "calls": [*calls, "odd"]}))
    files = write_report(folder)
    page = files.html.read_text(encoding="utf-8")
    shown = re.findall(r"<code>(.*?)</code>", page)
    assert [html.unescape(command) for command in shown] == said[:2]
    assert "<dt>commands</dt>" in page
    assert json.loads(files.summary.read_text())["commands"] == said[:2]
    assert read_comparison(folder).command == said[0]


def test_one_command_is_shown_as_one(tmp_path):
    folder = write_comparison(tmp_path, ("margin", "random"), seeds=(0,), cycles=2)
    page = write_report(folder).html.read_text(encoding="utf-8")
    one = "<dt>command</dt><dd><code>steepest compare digits --seeds 3</code></dd>"
    assert one in page

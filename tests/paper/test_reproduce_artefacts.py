"""Artefacts from records: numbers, spreads and differences are those of the runs."""

from __future__ import annotations

import pytest
from fake_records import accuracy, fill, level_of

from steepest.errors import UnknownNameError
from steepest.experiment.config import load_config
from steepest.paper.artefact import all_artefacts, find_artefact
from steepest.paper.level import Setting, load_level
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import FigurePart, TablePart, cell, rows_table
from steepest.paper.produce import choose, compute
from steepest.paper.published_numbers import Number, row
from steepest.paper.workspace import Workspace


@pytest.fixture
def work(tmp_path):
    return Workspace(load_level("paper", seeds=[0, 1]), tmp_path)


def made(name, work):
    one = find_artefact(name)
    return one, compute(one, work).findings


def rows_of(findings, **about):
    return [r for r in findings.rows if about.items() <= r.items()]


def test_curves_hold_means_spreads_and_differences(work):
    fill(work, [Need("cifar10", ("entropy-gradnorm", "random"))])
    one, findings = made("figure-1", work)
    (r,) = rows_of(findings, data="cifar10", method="entropy-gradnorm", share=40)
    values = [100 * accuracy("entropy-gradnorm", seed, 6) for seed in (0, 1)]
    assert r["ours"] == pytest.approx(sum(values) / 2)
    assert r["sd"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert (r["n"], r["seeds"], r["paper"], r["labels"]) == (2, [0, 1], 94.39, 20_000)
    assert r["difference"] == pytest.approx(r["ours"] - 94.39)
    (bound,) = rows_of(findings, data="cifar10", method="entropy-gradnorm", share=15)
    assert (bound["relation"], bound["difference"]) == ("at most", None)
    figure, *tables = one.show(findings)
    assert isinstance(figure, FigurePart)
    assert [panel.title for panel in figure.panels] == ["CIFAR-10"]
    assert len(tables) == 4


def test_the_line_of_all_labels_is_one_number(work):
    fill(work, [Need("cifar10-full", ("random",))])
    _, findings = made("figure-1", work)
    (r,) = rows_of(findings, data="cifar10", method="all labels")
    assert (r["share"], r["n"], r["paper"]) == (100, 2, 93.16)


def test_other_starts_and_strategies_are_shown_only_where_they_are_found(work):
    fill(work, [Need("cifar10", ("margin",)), Need("cifar10", ("random",), init="cold")])
    _, findings = made("figure-1", work)
    methods = {r["method"] for r in findings.rows if r["ours"] is not None}
    assert methods == {"margin", "random (cold)"}
    assert any("fresh weights" in note for note in findings.notes)
    assert not any("cold" in told or "margin" in told for told in findings.missing)


def test_published_curves_stand_alone_where_nothing_was_run(work):
    one, findings = made("figure-1", work)
    assert all(r["ours"] is None and r["n"] == 0 for r in findings.rows)
    assert rows_of(findings, data="svhn", method="core-set", share=40)[0]["paper"] == 95.08
    tables = one.show(findings)
    assert all(isinstance(part, TablePart) for part in tables)
    # What was hard to read off a figure says so.
    dropout = tables[0].rows[[line[0] for line in tables[0].rows].index("mc-dropout") + 1]
    assert dropout[2:4] == ("≈ 80.00 ?", "≈ 85.10")
    assert any("cifar100: no complete run" in told for told in findings.missing)


def test_gaps_are_training_less_test_accuracy(work):
    fill(work, [Need("cifar10", ("entropy-gradnorm",))])
    one, findings = made("table-3", work)
    ours = [r for r in findings.rows if r["ours"] is not None]
    assert [r["share"] for r in ours] == [15, 20, 25, 30, 35, 40]
    gap = 90 - sum(100 * accuracy("entropy-gradnorm", s, 1) for s in (0, 1)) / 2
    assert ours[0]["ours"] == pytest.approx(gap)
    assert ours[0]["difference"] == pytest.approx(gap - 13.05)
    (table,) = one.show(findings)
    assert any("difference" in line for line in table.rows)


def test_time_is_training_choosing_and_what_is_trained_for_it(work):
    fill(work, [Need("cifar10", ("vaal", "entropy-gradnorm"))])
    one, findings = made("table-9", work)
    (vaal,) = rows_of(findings, data="cifar10", method="vaal")
    assert vaal["training_hours"] == pytest.approx(7)
    assert vaal["auxiliary_hours"] == pytest.approx(12)
    assert vaal["scoring_hours"] == pytest.approx(0.6)
    assert vaal["ours"] == pytest.approx(19.6)
    assert (vaal["paper"], vaal["difference"]) == (15.21, None)
    table = one.show(findings)[0]
    line = next(line for line in table.rows if line[0] == "vaal")
    assert line[6] == cell(19.6 / 7.6)
    assert line[8] == cell(15.21 / 2.29)


def test_classes_are_those_of_the_last_cycle(work):
    fill(work, [Need("svhn", ("expected-gradnorm",))])
    one, findings = made("table-6", work)
    classes = rows_of(findings, quantity="class", method="expected-gradnorm")
    assert len(classes) == 10
    assert classes[2]["ours"] == 100.0
    assert classes[1]["n"] == 0  # That class did not occur.
    assert classes[2]["difference"] == pytest.approx(100 - 97.06)
    _, table, _ = one.show(findings)
    assert table.rows[1][0] == "1 (5099)"


def test_the_large_sets_tell_how_to_get_them(work):
    work.problems["imagenet", ""] = "run `steepest data get imagenet`"
    _, findings = made("figure-2", work)
    assert "run `steepest data get imagenet`" in findings.missing
    # A published number is shown, though no run of ours belongs to it.
    (full,) = rows_of(findings, data="cityscapes", method="all labels")
    assert (full["share"], full["paper"], full["ours"]) == (100, 68.0, None)


def test_a_trial_is_never_held_against_the_paper(tmp_path):
    settings = dict(load_level("paper").settings) | {"cifar10": Setting(config="cifar10")}
    work = Workspace(level_of(settings, name="smoke"), tmp_path)
    fill(work, [Need("cifar10", ("entropy-gradnorm",))])
    for name in ("figure-1", "table-3"):
        _, findings = made(name, work)
        assert any(r["ours"] is not None for r in findings.rows)
        assert all(r["difference"] is r["paper"] is None for r in findings.rows)


def test_a_trial_is_titled_by_the_data_that_it_used_and_shows_no_published_number(tmp_path):
    work = Workspace(load_level("smoke"), tmp_path)
    fill(work, [Need("cifar10", ("entropy-gradnorm", "random"))])
    one, findings = made("figure-1", work)
    figure, table = one.show(findings)
    title = "digits, in place of CIFAR-10, CIFAR-100, SVHN, Caltech-101"
    assert [panel.title for panel in figure.panels] == [title]
    assert table.title.startswith(title)
    assert not any("published" in cell for line in table.rows for cell in line)
    page = compute(one, work)
    assert page.title(work.level) == "Figure 1, tried on digits"
    assert "digits in place of cifar10, cifar100, svhn, caltech101" in page.substitutions(
        work.level
    )
    streets = compute(find_artefact("figure-2"), work)
    assert streets.title(work.level) == "Figure 2, tried on digits and coloured rectangles"


def test_all_names_and_aliases_lead_to_one_artefact_each():
    words = [word for one in all_artefacts() for word in (one.name, *one.aliases)]
    assert len(words) == len(set(words))
    assert all(find_artefact(word).title for word in words)
    assert [one.name for one in choose(["gap", "table-3", "time"])] == ["table-3", "table-9"]
    assert len(choose(["all"])) == len(all_artefacts())
    with pytest.raises(UnknownNameError, match="table-3"):
        find_artefact("tabel-3")


def test_every_artefact_of_the_paper_is_there():
    names = {one.name for one in all_artefacts()}
    tables = {f"table-{n}" for n in (1, 2, 3, 4, 6, 9)}
    assert {*tables, *(f"figure-{n}" for n in (1, 2, 3, 4)), "a1"} <= names


def test_a_row_without_measurement_or_publication_has_no_difference():
    assert row({"a": 1}, {})["difference"] is None
    assert row({}, {3: 2.0}, Number(1.5, "here"))["difference"] == 0.5
    assert row({}, {3: 2.0}, Number(1.5, "here"), comparable=False)["difference"] is None
    assert row({}, {3: 2.0})["sd"] is None


def test_cells_are_short_and_have_a_true_minus():
    assert [cell(None), cell(3), cell(-1.234), cell("x")] == ["–", "3", "−1.23", "x"]
    table = rows_table("t", [{"a": 1, "seeds": [0, 1]}, {"b": 2.0}])
    assert table.header == ("a", "seeds", "b")
    assert table.rows == (("1", "0, 1", "–"), ("–", "–", "2.00"))


def test_needs_share_runs_with_the_same_configuration(work):
    config = work.common(Need("cifar10", ("random",)))
    assert config == work.common(Need("cifar10", ("random",), weights=True))
    assert config.training == load_config("cifar10").training

from __future__ import annotations

import pytest
from fake_runs import write_comparison

from steepest.experiment.report import numbers, read_comparison, summary_rows, text_table
from steepest.experiment.statistics import LabelsSaved, Spread, summarise


def test_columns_line_up_with_numbers_to_the_right():
    lines = text_table(["name", "n"], [["a", 5], ["longer", 1000]]).splitlines()
    assert lines == ["name       n", "------  ----", "a          5", "longer  1000"]


def test_lines_have_no_trailing_blanks():
    lines = text_table(["name", "idea"], [["a", "x"], ["b", ""]]).splitlines()
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(
    "cell",
    ["0.9 ± 0.1", "-1e-3", "+0.5", "< 0.001", "> 0.050", "58 (3/3)", "−5 (1/3)", "40 %", "–"],
)
def test_these_count_as_numbers(cell):
    assert text_table(["a wide header"], [[cell]]).splitlines()[2].endswith(cell)
    assert text_table(["a wide header"], [[cell]]).splitlines()[2].startswith(" ")


@pytest.mark.parametrize("cell", ["8x8 images", "2 of them", "k=3"])
def test_these_are_text(cell):
    assert text_table(["a wide header"], [[cell]]).splitlines()[2] == cell


def test_a_table_without_rows_is_its_header():
    assert text_table(["a", "bc"], []).splitlines() == ["a  bc", "-  --"]


def test_rows_of_another_length_are_refused():
    with pytest.raises(ValueError, match="argument"):
        text_table(["a", "b"], [["x", "y"], ["only one"]])


def test_summary_rows_hold_the_main_results(tmp_path):
    summary = summarise(read_comparison(write_comparison(tmp_path)))
    header, rows = summary_rows(summary)
    assert [row[0] for row in rows] == ["entropy-gradnorm", "margin", "random"]
    assert all(len(row) == len(header) for row in rows)
    margin, random = rows[1], rows[2]
    assert header[1:3] == ["AUBC ± sd (n=3)", "final accuracy ± sd"]
    assert margin[1] == numbers.spread(summary.strategies[1].aubc)
    assert header[3] == "labels saved vs random"
    assert margin[3].endswith("(3/3)")
    assert margin[4] == numbers.p_value(summary.contrasts[1].t_p_holm)
    assert random[3] == random[4] == numbers.DASH
    assert "± " in text_table(header, rows)


def test_one_seed_has_no_deviation_to_name(tmp_path):
    header, _ = summary_rows(summarise(read_comparison(write_comparison(tmp_path, seeds=(0,)))))
    assert header[1:3] == ["AUBC (n=1)", "final accuracy"]


def test_rows_tell_n_where_it_differs(tmp_path):
    folder = write_comparison(tmp_path, cut=[("margin", 1)], missing=[("margin", 2)])
    header, rows = summary_rows(summarise(read_comparison(folder)))
    assert header[:3] == ["strategy", "n", "AUBC ± sd"]
    assert [row[:2] for row in rows] == [
        ["entropy-gradnorm", "3"],
        ["margin", "1"],
        ["random", "3"],
    ]
    assert all(len(row) == len(header) for row in rows)
    assert rows[1][4].endswith("/1)")


def test_seeds_are_told_from_the_fewest_to_the_most():
    assert numbers.seeds(1) == numbers.seeds(1, 1) == "1 seed"
    assert numbers.seeds(3, 3) == "3 seeds"
    assert numbers.seeds(3, 1, 2) == "1 to 3 seeds"


def test_numbers_say_what_is_missing():
    assert numbers.spread(None) == numbers.seconds(None) == numbers.size(None) == numbers.DASH
    assert numbers.spread(Spread(0.5, None, (0.5,))) == "0.500"
    assert numbers.saved(LabelsSaved(None, 0, (None, None))) == f"{numbers.DASH} (0/2)"
    assert numbers.saved(LabelsSaved(-12.6, 2, (-12.6, -12.6))) == f"{numbers.MINUS}13 (2/2)"
    assert numbers.saved(LabelsSaved(-0.4, 1, (-0.4,))) == "0 (1/1)"
    assert numbers.p_value(0.0004) == "< 0.001"
    assert [numbers.p_value(p) for p in (0.0496, 0.05, 0.0502, 0.0506)] == [
        "0.050", "0.050", "> 0.050", "0.051",
    ]  # fmt: skip
    assert numbers.signed(-0.25) == f"{numbers.MINUS}0.250"
    assert [numbers.signed(0.5, 2), numbers.signed(None)] == ["+0.50", "–"]


def test_labels_saved_are_a_dash_where_a_seed_never_reached_the_target():
    assert numbers.saved(LabelsSaved(21.0, 1, (21.0, None))) == f"{numbers.DASH} (1/2)"
    assert numbers.saved(LabelsSaved(21.0, 2, (20.0, 22.0))) == "21 (2/2)"


def test_sizes_have_the_largest_unit_that_fits():
    assert numbers.size(1023) == "1023 B"
    assert numbers.size(5 * 1024**2) == "5 MiB"
    assert numbers.size(3 * 1024**3 // 2) == "1.5 GiB"


def test_short_times_keep_their_digits():
    assert numbers.seconds(Spread(0.123, None, ())) == "0.12"
    assert numbers.seconds(Spread(512.3, None, ())) == "512"

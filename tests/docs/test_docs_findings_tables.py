"""The tables of findings say what the records hold: signs, pairs, counts and stars."""

from __future__ import annotations

import numpy as np
import pytest
from findings_records import (
    OURS,
    areas,
    difference,
    rarest_class,
    setting_of,
    shared_at_first,
    without_budget,
)
from findings_tables import (
    against_random,
    choices,
    criteria,
    field,
    prediction,
    schemes,
    settings,
    starts,
    told,
    told_together,
)

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.statistics import paired_tests

CONFIG = {"task": {"name": "classification"}}


def entry(cycle, accuracy, selected, correlation=0.5):
    regime = {"entropy_ratio": 0.25, "rank_correlation": correlation, "samples": 9}
    return {
        "labelled": 10 + 10 * cycle,
        "metrics": {"accuracy": accuracy},
        "selected": selected,
        "regime": regime if selected else None,
    }


def make(finals, correlations=(0.5, 0.5, 0.5), choices=None):
    """Make a comparison of two budgets from accuracies at the second, by strategy [S]."""
    chosen = choices or {}
    runs = {}
    for name, values in finals.items():
        for seed, value in enumerate(values):
            first = entry(0, 0.5, chosen.get(name, [1, 2]), correlations[seed])
            runs[name, seed] = Run(name, seed, (first, entry(1, value, [])))
    seeds = tuple(range(len(next(iter(finals.values())))))
    variants = {"sum": {"name": OURS, "options": {"norm": "tensor-sum"}}}
    return Comparison("x", tuple(finals), seeds, runs, CONFIG, variants=variants)


def rows(text):
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return [[cell.strip() for cell in line] for line in lines if line[0] != "---"][1:]


def test_areas_are_in_points_and_differences_are_ours_less_theirs():
    found = make({OURS: [0.7, 0.8, 0.9], "random": [0.6, 0.6, 0.6]})
    np.testing.assert_allclose(areas(found, OURS), [60.0, 65.0, 70.0])
    assert difference(found, OURS, "random").mean_difference == pytest.approx(10.0)
    assert difference(found, "random", OURS).mean_difference == pytest.approx(-10.0)
    assert difference(found, OURS, "margin") is None


def test_a_star_needs_a_corrected_p_of_5_percent():
    clear = paired_tests([1.0, 1.1, 1.05, 1.0], [0.0, 0.0, 0.0, 0.0])
    weak = paired_tests([1.0, 1.3, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0])
    assert told(clear, 0.05).endswith("] *")
    assert told(clear, 0.051).endswith("]")
    assert told(None) == "–"
    assert told(paired_tests([1.0], [0.5])) == "+0.50"
    assert [line.endswith("*") for line in told_together([clear, None, weak])] == [
        True,
        False,
        False,
    ]
    one = paired_tests([0.2, 0.3, 0.05, 0.1, 0.35], [0.0] * 5)
    assert one.t_p < 0.05
    assert told_together([one])[0].endswith("*")
    assert not told_together([one] * 40)[0].endswith("*")


def test_choices_are_counted_by_what_was_chosen_not_by_order():
    finals = {
        OURS: [0.7, 0.8],
        "expected-gradnorm": [0.7, 0.8],
        "sum": [0.6, 0.8],
        "random": [0.5, 0.5],
    }
    choices = {OURS: [1, 2], "expected-gradnorm": [2, 1], "sum": [2, 3]}
    first, second = rows(schemes(make(finals, choices=choices)))
    assert first[:3] == ["`expected-gradnorm`", "4 of 4", "2 of 2"]
    assert first[3] == "+0.00"
    assert second[:3] == ["`entropy-gradnorm`, norm = tensor-sum", "2 of 4", "0 of 2"]
    assert second[3].startswith("-2.50 [")


def test_starts_hold_each_strategy_against_random_and_against_itself():
    cold = make({OURS: [0.6, 0.7, 0.8], "random": [0.5, 0.6, 0.6]})
    warm = make({OURS: [0.8, 0.8, 0.8], "random": [0.8, 0.8, 0.9]})
    random, ours = rows(starts(cold, warm))
    assert random[0] == "`random`"
    assert (random[2], random[4]) == ("–", "–")
    assert random[5].startswith("+13.33 [")
    assert ours[1] == "60.00 ± 5.00"
    assert ours[2].startswith("+6.67 [")
    assert ours[4].startswith("-1.67 [")
    assert ours[5].startswith("+5.00 [")


def test_criteria_are_ours_less_each_other_one():
    finals = {"entropy": [0.6, 0.6, 0.5], OURS: [0.7, 0.8, 0.9], "random": [0.1, 0.1, 0.1]}
    ((name, cold, p, warm, _),) = rows(criteria(make(finals), make(finals)))
    assert name == "`entropy`"
    assert cold == warm
    assert cold.startswith("+11.67 [")
    assert p == "0.118, 0.250"


def test_the_field_has_the_highest_area_first_and_all_that_choosing_took():
    found = make({"random": [0.6, 0.7, 0.8], "entropy": [0.8, 0.9, 0.9], OURS: [0.7, 0.7, 0.8]})
    for (name, _), run in found.runs.items():
        if name == OURS:
            run.entries[0]["scoring"] = {"seconds": 1.5}
            run.entries[0]["auxiliary"] = {"seconds": 3.0}
    cells = rows(field(found))
    assert [row[0] for row in cells] == ["`entropy`", f"`{OURS}`", "`random`"]
    assert [row[2] for row in cells] == ["50.00"] * 3
    assert [row[3].split(" ±")[0] for row in cells] == ["68.33", "61.67", "60.00"]
    assert [row[4].split(" [")[0] for row in cells] == ["+8.33", "+1.67", "–"]
    assert [row[5].split(" [")[0] for row in cells] == ["–", "-6.67", "-8.33"]
    assert [row[6] for row in cells] == ["0.00", "4.50", "0.00"]


def test_choices_are_held_against_those_of_entropy():
    finals = {"entropy": [0.6, 0.6], OURS: [0.7, 0.8], "random": [0.1, 0.1]}
    found = make(finals, choices={"entropy": [1, 2, 3, 4], OURS: [4, 5, 6, 7], "random": [8, 9]})
    np.testing.assert_allclose(shared_at_first(found, OURS, "entropy"), [0.25, 0.25])
    random, ours = rows(choices(found))
    assert random == ["`random`", "+0.50", "0.0 ± 0.0"]
    assert ours == ["`entropy-gradnorm`", "+0.50", "25.0 ± 0.0"]


def test_the_rarest_class_is_counted_over_all_that_was_bought():
    found = make({OURS: [0.7, 0.8], "random": [0.5, 0.5]}, choices={OURS: [0, 1, 2, 4]})
    classes = np.array([0, 0, 1, 2, 2, 2])
    assert rarest_class(found, OURS, classes).tolist() == [1, 1]
    assert rarest_class(found, "random", classes).tolist() == [0, 0]


def test_strategies_are_held_against_random_in_columns_of_their_own():
    found = {
        "a": make({OURS: [0.5, 0.6], "sum": [0.5, 0.7], "random": [0.6, 0.8]}),
        "b": make({OURS: [0.9], "random": [0.6]}),
    }
    random, ours, other = rows(against_random(found))
    assert random == ["`random`, AUBC", "60.00 (n = 2)", "55.00 (n = 1)"]
    assert ours[0] == "`entropy-gradnorm`, less random"
    assert ours[1].startswith("-7.50 [")
    assert ours[2] == "+15.00"
    assert other[0] == "`entropy-gradnorm`, norm = tensor-sum, less random"
    assert other[2] == "–"


def test_settings_show_the_first_model_and_leave_gaps_where_nothing_ran():
    found = {
        "weak": make({OURS: [0.5, 0.6], "random": [0.6, 0.8]}, (-0.6, -0.4)),
        "one": make({OURS: [0.9], "random": [0.6], "entropy": [0.7]}),
    }
    weak, one = rows(settings(found))
    assert weak[:5] == ["weak", "2", "50.0", "0.25", "-0.50"]
    assert weak[5] == "–"
    assert weak[6].startswith("-7.50 [")
    assert weak[7:] == ["–", "–"]
    assert one[5:] == ["100 %", "+15.00", "+10.00", "–"]


def test_a_budget_can_be_left_out_of_the_area():
    values = {OURS: (0.5, 0.1, 0.7), "random": (0.5, 0.6, 0.6)}
    runs = {
        (name, 0): Run(name, 0, tuple(entry(i, v, [1] if i < 2 else []) for i, v in enumerate(vs)))
        for name, vs in values.items()
    }
    whole = Comparison("x", tuple(values), (0,), runs, CONFIG)
    assert difference(whole, OURS, "random").mean_difference == pytest.approx(-22.5)
    rest = without_budget(whole, 20)
    assert rest.runs[OURS, 0].budgets.tolist() == [10, 30]
    assert difference(rest, OURS, "random").mean_difference == pytest.approx(5.0)


def test_predictions_correlate_diagnosis_and_gain_by_setting_and_by_run():
    finals = {"random": [0.5, 0.5, 0.5], "entropy": [0.5] * 3, "margin": [0.5] * 3}
    found = {
        str(level): make({OURS: [0.5 + level, 0.52 + level, 0.54 + level], **finals}, at)
        for level, at in [
            (-0.2, (-0.1, -0.2, -0.3)),
            (0.0, (0.2, 0.1, 0.0)),
            (0.2, (0.9, 0.8, 0.7)),
        ]
    }
    with pytest.warns(match="constant"):  # The entropy ratio of these is, and what is shared.
        first = rows(prediction(found))[0]
    assert first[:2] == ["rank correlation", "less random"]
    assert first[2].startswith("+1.00 (n = 3")
    assert first[3].startswith("+0.")
    assert "n = 9" in first[3]
    assert first[4] == "-1.00 (n = 9)"
    part = setting_of(found["0.0"], ["random", "badge"])
    assert set(part.gains) == {"random"}

"""Strategies with different numbers of complete seeds, and a baseline of choice."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_runs import BUDGETS, CURVES, make_comparison, make_entry

from steepest.errors import InputError, RunFolderError, UnknownNameError
from steepest.experiment.comparison import Run
from steepest.experiment.statistics import aubc, holm, paired_tests, penalty_matrix, summarise

LATE = [("late", 1), ("late", 2)]
WITH_LATE = {**CURVES, "late": [[0.5, 0.65, 0.75]] * 3}


def by_name(summary):
    return {entry.strategy: entry for entry in summary.strategies}


def areas(name, seeds):
    return [aubc(BUDGETS, CURVES[name][seed]) for seed in seeds]


def test_a_strategy_with_one_seed_takes_none_from_the_others():
    summary = summarise(make_comparison(WITH_LATE, missing=LATE))
    without = summarise(make_comparison())
    found = by_name(summary)
    assert {name: entry.n for name, entry in found.items()} == {
        "random": 3, "margin": 3, "entropy": 3, "late": 1,
    }  # fmt: skip
    assert [found[name] for name in CURVES] == list(without.strategies)
    assert (summary.counts, summary.ragged, without.ragged) == ((3, 3, 3, 1), True, False)


def test_what_a_summary_says_of_all_is_of_the_seeds_that_all_have():
    summary = summarise(make_comparison(WITH_LATE, missing=LATE))
    assert (summary.n, summary.seeds) == (1, (0,))
    apart = make_comparison(cut=[("margin", 0), ("entropy", 1), ("entropy", 2)])
    assert (summarise(apart).n, summarise(apart).seeds) == (0, ())


def test_numbers_are_of_the_seeds_that_strategy_and_baseline_have():
    summary = summarise(make_comparison(cut=[("margin", 1), ("random", 2)]))
    found = by_name(summary)
    assert {name: entry.seeds for name, entry in found.items()} == {
        "random": (0, 1), "margin": (0,), "entropy": (0, 1),
    }  # fmt: skip
    assert found["margin"].aubc.values == pytest.approx(areas("margin", [0]))
    assert found["entropy"].aubc.values == pytest.approx(areas("entropy", [0, 1]))
    assert found["entropy"].final_value.values == (0.71, 0.75)
    assert found["entropy"].curve.mean[2] == pytest.approx(0.73)
    assert found["margin"].curve.low == found["margin"].curve.high == (0.5, 0.7, 0.8)
    assert found["margin"].labels_saved is not None
    assert found["margin"].labels_saved.values == pytest.approx((20,))
    assert found["margin"].labels_saved.needed == pytest.approx(40)
    assert found["margin"].labels_saved.baseline_needed == pytest.approx(60)


def test_each_contrast_pairs_the_seeds_of_its_strategy():
    summary = summarise(make_comparison(cut=[("margin", 0)]))
    margin, entropy = summary.contrasts[:2]
    tests = [
        paired_tests(areas("margin", [1, 2]), areas("random", [1, 2])),
        paired_tests(areas("entropy", range(3)), areas("random", range(3))),
    ]
    assert [margin.test, entropy.test] == tests
    assert (margin.test.n, entropy.test.n) == (2, 3)
    assert (margin.t_p_holm, entropy.t_p_holm) == holm([test.t_p for test in tests])


def test_a_strategy_of_one_seed_does_not_count_in_holms_family():
    contrasts = summarise(make_comparison(WITH_LATE, missing=LATE)).contrasts
    without = summarise(make_comparison()).contrasts
    assert [c for c in contrasts if c.strategy != "late"] == list(without)
    assert [c.t_p_holm for c in contrasts if c.strategy == "late"] == [None, None]


def test_a_strategy_without_a_seed_of_the_baseline_is_left_out():
    summary = summarise(make_comparison(cut=[("random", 2), ("margin", 0), ("margin", 1)]))
    assert list(by_name(summary)) == ["random", "entropy"]
    assert (summary.n, summary.runs_complete) == (2, 6)
    alone = make_comparison({n: CURVES[n][:2] for n in ("random", "margin")},
                            cut=[("random", 1), ("margin", 0)])  # fmt: skip
    assert list(by_name(summarise(alone))) == ["random"]
    assert (summarise(alone).baseline, summarise(alone).contrasts) == ("random", ())


def wide(noise):
    base = np.full((4, 3), 0.5) + noise
    return {
        "random": base,
        "good": base + [0, 0.2, 0.2] + 0.1 * noise[::-1],
        "same": base + [0, 0.01, -0.01] * noise[::-1],
    }


def test_each_pair_of_the_penalty_matrix_is_judged_on_the_seeds_both_have():
    curves = wide(np.array([[-0.01], [0.0], [0.01], [0.02]]))
    gone = [("random", 0), ("good", 3), ("same", 1), ("same", 2)]
    penalty = summarise(make_comparison({k: v.tolist() for k, v in curves.items()}, gone)).penalty
    assert penalty is not None
    assert penalty.n == ((3, 2, 1), (2, 3, 1), (1, 1, 2))
    pair = penalty_matrix({name: curves[name][[1, 2]] for name in ("random", "good")})
    assert penalty.matrix == (
        (0.0, pair[0, 1], None),
        (pair[1, 0], 0.0, None),
        (None, None, 0.0),
    )
    assert pair[1, 0] == 1.0
    assert penalty.wins == (0.0, 1.0, None)
    assert penalty.losses == (1.0, 0.0, None)


def test_without_a_pair_of_two_seeds_there_is_no_penalty_matrix():
    cut = [("random", 2), ("margin", 1), ("entropy", 0)]
    assert summarise(make_comparison(cut=cut)).penalty is None
    assert summarise(make_comparison(cut=cut[:1])).penalty is not None


def test_another_baseline_takes_the_place_of_random():
    summary = summarise(make_comparison(cut=[("random", 1)]), "margin")
    found = by_name(summary)
    assert summary.baseline == "margin"
    assert found["margin"].labels_saved is None
    assert found["margin"].n == found["entropy"].n == 3
    assert found["random"].seeds == (0, 2)
    assert {(c.strategy, c.baseline) for c in summary.contrasts} == {
        ("random", "margin"), ("entropy", "margin"),
    }  # fmt: skip
    expected = paired_tests(areas("random", [0, 2]), areas("margin", [0, 2]))
    assert summary.contrasts[0].test == expected


def test_random_named_as_the_baseline_is_what_is_there_without_a_name():
    assert summarise(make_comparison(), "random") == summarise(make_comparison())


def test_a_baseline_that_is_not_there_is_refused():
    with pytest.raises(UnknownNameError, match="unknown baseline 'margn': did you mean 'margin'"):
        summarise(make_comparison(), "margn")
    begun = make_comparison(cut=[("margin", seed) for seed in range(3)])
    with pytest.raises(InputError, match=r"'margin' has no complete run: .*: random, entropy$"):
        summarise(begun, "margin")


def test_a_baseline_without_others_compares_nothing():
    summary = summarise(make_comparison({"margin": CURVES["margin"]}), "margin")
    assert (summary.baseline, summary.contrasts, summary.n) == (None, (), 3)


def test_a_run_at_other_budgets_is_refused_whoever_else_has_its_seed():
    made = make_comparison(cut=[("random", 0)])
    odd = tuple(make_entry(c, 0.5, last=c == 2, budgets=(20, 50, 90)) for c in range(3))
    made.runs["margin", 0] = Run("margin", 0, odd)
    with pytest.raises(RunFolderError, match="other budgets"):
        summarise(made)


def test_a_ragged_summary_survives_json_without_nan():
    summary = summarise(make_comparison(WITH_LATE, missing=LATE))
    found = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert found["strategies"][3]["seeds"] == [0]
    assert found["strategies"][3]["n"] == 1
    assert found["penalty"]["matrix"][3][:3] == [None] * 3

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fake_runs import make_entry

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.record import LABELLED_MAPS
from steepest.experiment.report.headline import completeness, headline, hidden_labels_read
from steepest.experiment.statistics import summarise

BASE = np.array([0.50, 0.60, 0.70, 0.80])
LIFT = np.array([0.0, 0.2, 0.2, 0.2])


def compare(curves, cut=()) -> Comparison:
    """Make a comparison out of accuracies [S, B] by strategy; budgets are 40, 60, 80, 100."""
    runs = {}
    for name, by_seed in curves.items():
        for seed, accuracy in enumerate(by_seed):
            entries = [make_entry(name, seed, c, len(accuracy)) for c in range(len(accuracy))]
            for entry, value in zip(entries, accuracy, strict=True):
                entry["metrics"] = {"accuracy": float(value)}
            if (name, seed) in cut:
                entries.pop()
            runs[name, seed] = Run(name, seed, tuple(entries))
    seeds = tuple(range(len(next(iter(curves.values())))))
    return Comparison("test", tuple(curves), seeds, runs, config={})


def jitter(seeds: int, size: float = 0.01):
    return np.random.default_rng(1).normal(0, size, (seeds, 1))


def words(curves, cut=()) -> str:
    return " ".join(headline(summarise(compare(curves, cut))))


def test_labels_needed_are_told_with_n():
    curves = {"random": [BASE] * 3, "margin": [BASE + LIFT] * 3}
    said = "margin reached random's final accuracy with 60 labels, random itself with 100"
    assert f"{said} (n = 3 seeds)." in words(curves)


def test_a_baseline_that_stopped_getting_better_is_told_by_when_it_was_there():
    flat = [0.5, 0.8, 0.8, 0.8]
    text = words({"random": [flat] * 2, "margin": [[0.5, 0.9, 0.9, 0.9]] * 2})
    assert "with 55 labels, random itself with 60 (n = 2 seeds)" in text


def test_a_target_never_reached_is_said():
    text = words({"random": [BASE] * 2, "margin": [BASE - 0.1] * 2})
    assert "margin did not reach random's final accuracy within 100 labels (n = 2 seeds)" in text


def test_curves_that_are_all_the_same_are_not_said_to_be_above():
    text = words({"random": [BASE, BASE + 0.1], "a": [BASE, BASE + 0.1], "b": [BASE, BASE + 0.1]})
    assert (
        "a has the highest accuracy averaged over the curve (AUBC), the same as random's." in text
    )
    assert "Level with it to the last digit: b. No seed differs at all (n = 2)." in text
    assert "chance" not in text


def test_a_tie_of_the_best_names_all_and_a_tiny_gap_is_none_of_zero():
    better = [BASE + 2e-4, BASE + 4e-4]
    text = words({"random": [BASE, BASE], "a": better, "b": better, "c": [BASE, BASE + 1e-4]})
    assert "less than 0.001 above random's. Level with it to the last digit: b." in text


def test_every_sentence_names_the_metric_of_the_comparison():
    for lift in (LIFT, -LIFT):
        summary = summarise(compare({"random": [BASE] * 2, "margin": [BASE + lift] * 2}))
        text = " ".join(headline(replace(summary, metric="miou")))
        assert "random's final mean IoU with" in text
        assert "margin's mean IoU, averaged over the curve (AUBC), is 0.1" in text
        assert "accuracy" not in text


def test_a_target_reached_in_some_seeds_names_them():
    better = BASE + LIFT
    text = words({"random": [BASE] * 3, "margin": [better, better, BASE - 0.1]})
    assert "margin reached random's final accuracy within 100 labels in 2 of 3 seeds." in text
    assert "with 60 labels" not in text


def test_the_best_of_the_others_is_told_even_below_random():
    curves = {
        "random": BASE + jitter(3),
        "poor": BASE - 0.1 + jitter(3, 0.02),
        "poorer": BASE - 0.2,
    }
    curves["poorer"] = curves["poorer"] + jitter(3, 0.03)
    text = words(curves)
    assert "Of the 2 strategies compared with random, poor has the highest" in text
    assert "below random's" in text
    assert "above" not in text


def test_significance_is_claimed_only_where_the_corrected_test_shows_it():
    random = BASE + jitter(8)
    clear = words({"random": random, "margin": random + 0.05 + jitter(8, 0.001)})
    noisy = words({"random": random, "margin": random + 0.001 + jitter(8, 0.05)})
    assert "That is significant at 5 % (paired t-test after Holm's correction: p < 0.001" in clear
    assert "not significant at 5 %" in noisy
    assert "is significant" not in noisy


def test_a_p_value_just_above_the_level_does_not_read_as_on_it():
    random = np.tile(BASE, (3, 1))
    # t = 4.29 with two degrees of freedom, where 4.303 is the bound: p is 0.0502.
    lift = 0.02 + 0.02 * np.sqrt(3) / 4.29 * np.array([[-1.0], [0.0], [1.0]])
    summary = summarise(compare({"random": random, "margin": random + lift}))
    assert 0.05 < summary.contrasts[0].t_p_holm < 0.0505
    assert "That is not significant at 5 % (paired t-test after Holm's correction: p > 0.050" in (
        " ".join(headline(summary))
    )


def test_holm_can_take_a_claim_back():
    random = np.tile(BASE, (4, 1))
    lift = np.array([0.03, 0.01, 0.02, 0.035])[:, None]
    noise = np.array([0.1, -0.1, 0.1, -0.12])[:, None]
    pair = {"random": random, "margin": random + lift}
    many = pair | {f"other {k}": random + noise / k for k in range(1, 7)}
    assert "That is significant at 5 %" in words(pair)
    assert "not significant at 5 %" in words(many)


def test_few_seeds_are_said_to_be_too_few_for_wilcoxon():
    random = BASE + jitter(5)
    text = words({"random": random, "margin": random + 0.05 + jitter(5, 0.001)})
    assert "cannot fall below p = 0.0625 with n = 5" in text
    assert text.endswith("to reach 5 %, so this rests on differences being roughly normal.")
    six = BASE + jitter(6)
    assert "Wilcoxon" not in words({"random": six, "margin": six + 0.05 + jitter(6, 0.001)})


def test_one_seed_claims_nothing():
    text = words({"random": [BASE], "margin": [BASE + LIFT / 2]})
    assert "No t-test of that difference is possible: one seed" in text
    assert "significant" not in text


def test_one_strategy_is_not_compared():
    text = words({"margin": [BASE, BASE]})
    assert "margin reached a test accuracy of 0.800 with 100 labels (n = 2 seeds)" in text
    assert "no other strategy" in text


RAGGED = {
    "random": [BASE, BASE + 0.01, BASE - 0.01],
    "margin": [BASE + 0.03, BASE + 0.05, BASE],
    "entropy": [BASE + 0.02, BASE + 0.03, BASE + 0.9],
    "lucky": [BASE + 0.1, BASE, BASE],
}


def test_one_lucky_seed_does_not_lead_nor_do_seeds_that_the_baseline_lacks():
    cut = [("random", 2), ("lucky", 1), ("lucky", 2)]
    told = words(RAGGED, cut)
    assert told.startswith("margin reached random's final accuracy with 93 labels")
    assert (
        "Of the 2 strategies compared with random on two seeds or more, each on the seeds both "
        "have, margin does best in accuracy averaged over the curve (AUBC): 0.035 above random's."
    ) in told
    assert "lucky" not in told


def test_the_order_is_by_paired_differences_not_by_means_over_different_seeds():
    curves = {
        "random": [[0.5, 0.5], [0.9, 0.9], [0.9, 0.9]],
        "high": [[0.5, 0.5], [0.91, 0.92], [0.91, 0.91]],
        "gains": [[0.6, 0.6], [0.95, 0.98], [0.9, 0.9]],
    }
    told = words(curves, [("high", 0), ("gains", 2)])
    assert "each on the seeds both have, gains does best in accuracy" in told


def test_the_only_one_with_two_seeds_is_said_to_be_so():
    curves = {name: RAGGED[name] for name in ("random", "margin", "lucky")}
    told = words(curves, [("lucky", 1), ("lucky", 2)])
    assert "margin's accuracy, averaged over the curve (AUBC), is 0.027 above random's. " in told
    assert "No other strategy has two complete seeds in common with random." in told
    assert "cannot fall below p = 0.25 with n = 3" in told


def test_one_seed_of_each_is_told_as_such():
    curves = {name: by_seed[:1] for name, by_seed in RAGGED.items()}
    assert "Of the 3 strategies compared with random, lucky has the highest" in words(curves)


def test_nothing_complete_is_said():
    assert "No statistics yet" in words({"margin": [BASE]}, cut=[("margin", 0)])


def test_completeness_names_what_is_left_out():
    curves = {"random": [BASE] * 2, "margin": [BASE] * 2, "late": [BASE] * 2}
    cut = [("margin", 1), ("late", 0), ("late", 1)]
    comparison = compare(curves, cut)
    text = completeness(comparison, summarise(comparison))
    assert text is not None
    assert text.startswith("3 of 6 runs complete.")
    assert "not compared: late." in text
    assert text.endswith("complete for it and for random: random 0, 1; margin 0.")
    paired = compare({name: curves[name] for name in ("random", "margin")}, [("random", 1)])
    text = completeness(paired, summarise(paired))
    assert text is not None
    assert text.endswith("Statistics use the seeds complete for every strategy compared: 0.")
    whole = compare(curves)
    assert completeness(whole, summarise(whole)) is None


def test_a_strategy_that_is_clearly_worse_is_named():
    random = BASE + jitter(8)
    better, worse = random + 0.05 + jitter(8, 0.001), random - 0.1 - abs(jitter(8, 0.002))
    text = words({"random": random, "margin": better, "poor": worse})
    assert "poor was worse than random: its AUBC is 0.1" in text
    assert "margin was worse" not in text


def test_maps_that_the_loop_itself_reads_are_no_hidden_labels():
    comparison = compare({"margin": [BASE], "random": [BASE]})
    for entry in comparison.runs["margin", 0].entries:
        entry["purposes"] = [LABELLED_MAPS]
    assert hidden_labels_read(comparison) is None
    comparison.runs["margin", 0].entries[1]["purposes"] += ["a", "b"]
    assert "margin for “a”, “b”." in (hidden_labels_read(comparison) or "")

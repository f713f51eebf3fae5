"""Sections of the page that compare strategies: curves, results, tests, penalty matrix."""

from __future__ import annotations

from itertools import permutations

from steepest.core.markup import (
    Safe,
    element,
    join,
    paragraph,
    section,
    table,
)
from steepest.core.wording import counted
from steepest.experiment.comparison import Comparison
from steepest.experiment.report import numbers
from steepest.experiment.report.figures import (
    SEEDS_OF_A_BAND,
    gains_of,
    inline_svg,
    seeds_of_an_interval,
)
from steepest.experiment.report.numbers import MetricWords, is_share, words_of
from steepest.experiment.report.tables import share_cell
from steepest.experiment.significance import smallest_wilcoxon_p
from steepest.experiment.statistics import Contrast, Penalty, StrategySummary, Summary

_ROUNDING = 1e-12


def curves_section(comparison: Comparison, summary: Summary, svg: bytes) -> Safe:
    """Return the learning curves, and the numbers behind them folded away."""
    description = (
        f"{words_of(summary.metric).title} against the number of labelled samples for "
        f"{', '.join(comparison.strategies)}; the numbers are in the table below."
    )
    return section(
        "curves",
        "Learning curves",
        paragraph(_curves_caption(comparison, summary)),
        _figure(inline_svg(svg, "learning-curves", description), "Learning curves"),
        _curve_numbers(summary) if summary.strategies else None,
    )


def results_section(summary: Summary) -> Safe:
    """Return the main table: the metric, labels, time and memory by strategy."""
    words = words_of(summary.metric)
    columns: dict[str, list[str]] = {
        **({"n": [str(count) for count in summary.counts]} if summary.ragged else {}),
        words.measure("aubc"): [numbers.spread(entry.aubc) for entry in summary.strategies],
        words.measure("final_value"): [numbers.spread(e.final_value) for e in summary.strategies],
    }
    text = (
        f"AUBC is the area under the curve of {words.short} over labels, divided by the range of "
        "labels: the mean height of the curve."
    )
    if summary.baseline:
        columns[f"labels saved (against {summary.baseline})"] = [
            numbers.saved(entry.labels_saved) for entry in summary.strategies
        ]
        text += (
            f" Labels saved: those that {summary.baseline} itself needs to reach its final "
            f"{words.short} for the first time, less those that the strategy needs to reach "
            f"{summary.baseline}'s final {words.short} with the same seed; a mean where all seeds "
            "reached it, otherwise a dash, and in brackets how many did. That is no test: a "
            f"strategy no better than {summary.baseline} reaches it in about every other seed, and "
            "then mostly seems to save labels."
        )
    columns["scoring, s per run"] = [
        numbers.seconds(entry.scoring_seconds) for entry in summary.strategies
    ]
    if any(entry.auxiliary_seconds for entry in summary.strategies):
        columns["auxiliary training, s per run"] = [
            numbers.seconds(entry.auxiliary_seconds) for entry in summary.strategies
        ]
        text += " Auxiliary training: of other things than the model, for the strategy's sake."
    columns |= {
        "training, s per run": [numbers.seconds(e.training_seconds) for e in summary.strategies],
        "peak memory of scoring": [numbers.size(e.scoring_peak_bytes) for e in summary.strategies],
    }
    if summary.ragged:
        text += (
            f" A strategy's numbers are of the n seeds complete for it and for {summary.baseline}, "
            "so means of two strategies may be of different seeds: compare them by the paired "
            "differences below."
        )
    names = [entry.strategy for entry in summary.strategies]
    deviation = ", ± standard deviation over seeds" if max(summary.counts) > 1 else ""
    caption = f"Means{deviation}, n = {numbers.seeds(*summary.counts)}"
    shown = table(caption, ("strategy", *columns), zip(names, *columns.values(), strict=True))
    return section("results", "Results", shown, paragraph(text, "note"))


def tests_section(summary: Summary, gains_svg: bytes | None) -> Safe | None:
    """Return the paired tests against the baseline and their figure, None where there is none."""
    if not summary.contrasts or gains_svg is None:
        return None
    words = words_of(summary.metric)
    counts = [contrast.test.n for contrast in summary.contrasts]
    differ = len(set(counts)) > 1
    header = (
        "strategy",
        *(("n",) if differ else ()),
        "measure",
        "mean difference",
        "95 % interval",
        "p, t-test",
        "p, t-test (Holm)",
        "p, Wilcoxon",
        "p, Wilcoxon (Holm)",
    )
    text = (
        f"Each strategy is compared with {summary.baseline} seed by seed: the same initial labels, "
        "the same initial weights. Holm's correction is for the number of strategies within "
        "one measure; a difference counts as significant at 5 % where the corrected p is at "
        "most 0.05. The intervals are not corrected: of many, some miss by chance."
    )
    caption = f"Paired tests against {summary.baseline}, two-sided, n = {numbers.seeds(*counts)}"
    return section(
        "tests",
        "Is the difference more than chance?",
        paragraph(text),
        _gains_figure(summary, gains_svg),
        table(caption, header, (_contrast_row(c, words, tell_n=differ) for c in summary.contrasts)),
        *(paragraph(note, "note") for note in _test_notes(summary)),
    )


def penalty_section(penalty: Penalty | None) -> Safe | None:
    """Return the penalty matrix with its orientation, None where there is none."""
    if penalty is None:
        return None
    text = (
        f"Each cell is the share of the {counted(penalty.budgets, 'budget')} after the first at "
        "which the strategy of the row is significantly better than the strategy of the column "
        f"(paired t-test, p < {penalty.alpha:g}, uncorrected): a row's mean is how often it wins "
        "(higher is better), a column's mean how often it is beaten (lower is better). Of two "
        f"equal strategies each wins {penalty.alpha / 2:g} by chance."
    )
    pairs = list(permutations(range(len(penalty.strategies)), 2))
    judged = [penalty.n[i][j] for i, j in pairs if penalty.matrix[i][j] is not None]
    if len(set(judged)) > 1 or len(judged) < len(pairs):
        text += " Each pair is judged on the seeds complete for both."
    if len(judged) < len(pairs):
        text += (
            " A pair with fewer than two such seeds is not judged: it has a dash, and does not "
            "count in the means."
        )
    rows = [
        (
            name,
            *(share_cell(None if i == j else value) for j, value in enumerate(penalty.matrix[i])),
            numbers.mean_share(penalty.wins[i]),
        )
        for i, name in enumerate(penalty.strategies)
    ]
    rows.append(("is beaten (mean)", *map(numbers.mean_share, penalty.losses), ""))
    header = ("row beats column", *penalty.strategies, "wins (mean)")
    caption = f"Penalty matrix, n = {numbers.seeds(*judged)}"
    return section("penalty", "Who beats whom", paragraph(text), table(caption, header, rows))


def _gains_figure(summary: Summary, svg: bytes) -> Safe:
    gains = gains_of(summary)
    description = (
        f"Area under the curve less that of {summary.baseline} for "
        f"{', '.join(gain.strategy for gain in gains)}; the numbers are in the table below."
    )
    text = "AUBC by strategy: the mean difference"
    if max(gain.test.n for gain in gains) > 1:
        text += ", a ring for each seed, and a bar for the 95 % interval"
        needed = seeds_of_an_interval(summary)
        if min(gain.test.n for gain in gains) < needed:
            text += f" (from {numbers.seeds(needed)} on)"
    drawn = _figure(inline_svg(svg, "gains", description), "Differences in AUBC")
    return join([drawn, paragraph(f"{text}.", "note")])


def _figure(drawn: Safe, label: str) -> Safe:
    return element("div", drawn, class_="figure", tabindex="0", role="group", aria_label=label)


def _curves_caption(comparison: Comparison, summary: Summary) -> str:
    title = words_of(summary.metric).title
    if not summary.strategies:
        return f"{title} of the runs as far as they have come; no seed is complete yet."
    if max(summary.counts) == 1:
        text = f"{title} of one seed (n = 1)."
    else:
        text = f"{title} averaged over n = {numbers.seeds(*summary.counts)}."
        if max(summary.counts) >= SEEDS_OF_A_BAND:
            text += (
                " The bands are 95 % confidence intervals of the mean (Student's t), each budget "
                "by itself."
            )
        if any(1 < n < SEEDS_OF_A_BAND for n in summary.counts):
            fewer = f" of fewer than {SEEDS_OF_A_BAND}" if "bands" in text else ""
            text += f" Faint lines are the single seeds{fewer}."
    counted = sum(summary.counts)
    begun = sum(len(comparison.begun_runs(name)) for name in comparison.strategies)
    if begun > counted:
        text += " Thin lines with markers are runs that are not in the statistics."
    return text


def _curve_numbers(summary: Summary) -> Safe:
    budgets = summary.strategies[0].curve.budgets
    cut = is_share(summary.metric)
    rows = [
        (
            budget,
            *(_interval(entry, i, cut=cut) for entry in summary.strategies),
        )
        for i, budget in enumerate(budgets)
    ]
    title = words_of(summary.metric).title
    caption = f"{title} by number of labels, n = {numbers.seeds(*summary.counts)}"
    if max(summary.counts) > 1:
        caption += ", with 95 % interval (none where all seeds have the same value)"
        if cut and any(min(e.curve.low) < 0 or max(e.curve.high) > 1 for e in summary.strategies):
            caption += ", cut off at 0 and 1"
    header = (
        "labels",
        *(_with_n(entry) if summary.ragged else entry.strategy for entry in summary.strategies),
    )
    return element(
        "details",
        element("summary", "The numbers behind the curves"),
        table(caption, header, rows),
    )


def _with_n(entry: StrategySummary) -> str:
    return f"{entry.strategy} (n\u00a0=\u00a0{entry.n})"


def _interval(entry: StrategySummary, i: int, *, cut: bool) -> Safe:
    """Return a mean and its interval; Student's t does not know that shares have bounds.

    Seeds that agree by chance, as metrics move in steps, do not make the mean certain.
    """
    mean, low, high = (row[i] for row in (entry.curve.mean, entry.curve.low, entry.curve.high))
    if high - low <= _ROUNDING * max(1.0, abs(mean)):
        return join([numbers.share(mean)])
    if cut:
        low, high = max(low, 0.0), min(high, 1.0)
    bounds = f"{numbers.share(low)} to {numbers.share(high)}"
    return join([numbers.share(mean), " ", element("span", bounds, class_="quiet")])


def _test_notes(summary: Summary) -> list[str]:
    """Say why p-values are missing, or cannot be small."""
    counts = {contrast.strategy: contrast.test.n for contrast in summary.contrasts}
    if max(counts.values()) < 2:
        return ["With n = 1 seed there is no spread to judge by, so no test is possible."]
    words = words_of(summary.metric)
    notes = [
        f"{c.strategy}, {words.measure(c.measure)}: {c.test.note}."
        for c in summary.contrasts
        if c.test.note
    ]
    few = sorted({n for n in counts.values() if n > 1 and smallest_wilcoxon_p(n) > 0.05})
    for n in few:
        named = ", ".join(name for name, count in counts.items() if count == n)
        among = f" ({named})" if len({*counts.values()}) > 1 else ""
        notes.append(
            f"With n = {numbers.seeds(n)}{among} Wilcoxon's p cannot fall below "
            f"{smallest_wilcoxon_p(n):g}: too few seeds for it to reach 5 %. It takes at least six."
        )
    return notes if few else [*notes, *_corrected_note([*counts.values()])]


def _corrected_note(counts: list[int]) -> list[str]:
    """Say that Holm's correction keeps Wilcoxon's test from 5 %, where all have as many seeds."""
    n, tests = counts[0], len(counts)
    floor = min(1.0, tests * smallest_wilcoxon_p(n))
    if len(set(counts)) > 1 or floor <= 0.05:
        return []
    text = f"With n = {numbers.seeds(n)} and {tests} strategies Wilcoxon's corrected p cannot fall"
    return [f"{text} below {floor:g}: too few seeds for it to reach 5 %."]


def _contrast_row(contrast: Contrast, words: MetricWords, *, tell_n: bool) -> tuple[object, ...]:
    test = contrast.test
    interval = numbers.DASH
    if test.low is not None and test.high is not None:
        interval = f"{numbers.signed(test.low)} to {numbers.signed(test.high)}"
    return (
        contrast.strategy,
        *((test.n,) if tell_n else ()),
        words.measure(contrast.measure),
        numbers.signed(test.mean_difference),
        interval,
        numbers.p_value(test.t_p),
        element("strong", numbers.p_value(contrast.t_p_holm)),
        numbers.p_value(test.wilcoxon_p),
        numbers.p_value(contrast.wilcoxon_p_holm),
    )

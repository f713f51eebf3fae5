"""The outcome in plain words, with no claim that the tests do not carry."""

from __future__ import annotations

from steepest.experiment.outcomes import Comparison
from steepest.experiment.significance import smallest_wilcoxon_p
from steepest.experiment.statistics import Contrast, StrategySummary, Summary
from steepest.report import numbers
from steepest.report.metric_words import MetricWords, words_of

LEVEL = 0.05


def headline(summary: Summary) -> tuple[str, ...]:
    """Return the outcome as sentences, the most important first."""
    if not summary.strategies:
        return ("No statistics yet: no seed is complete for every strategy compared.",)
    words = words_of(summary.metric)
    if summary.baseline is None:
        nothing = "There is no other strategy to compare it with."
        return (_alone(summary.strategies[0], summary.n, words), nothing)
    others = [entry for entry in summary.strategies if entry.strategy != summary.baseline]
    best = max(others, key=lambda entry: entry.aubc.mean)
    contrast = next(
        c for c in summary.contrasts if c.strategy == best.strategy and c.measure == "aubc"
    )
    sentences = [
        _reach(best, summary, words),
        _area(best, contrast, len(others), words),
        _verdict(contrast),
    ]
    sentences += [_loss(c) for c in summary.contrasts if _is_loss(c) and c is not contrast]
    floor = smallest_wilcoxon_p(summary.n)
    if summary.n > 1 and floor > LEVEL:
        sentences.append(
            f"Wilcoxon's signed-rank test cannot fall below p = {floor:g} with n = {summary.n}: "
            "that is too few seeds for it to reach 5 %."
        )
    return tuple(sentences)


def completeness(comparison: Comparison, summary: Summary) -> str | None:
    """Return a sentence on what is missing, or None if every run is complete."""
    if summary.runs_complete == summary.runs_expected:
        return None
    text = f"{summary.runs_complete} of {summary.runs_expected} runs complete."
    if comparison.single:
        return f"{text} The page shows the cycles that are there."
    left_out = [name for name in comparison.strategies if name not in comparison.compared]
    if left_out:
        text += f" Without a complete run, and so not compared: {', '.join(left_out)}."
    listed = ", ".join(str(seed) for seed in summary.seeds) or "none"
    return f"{text} Statistics use the seeds complete for every strategy compared: {listed}."


def _alone(entry: StrategySummary, n: int, words: MetricWords) -> str:
    return (
        f"{entry.strategy} reached a {words.name} of {numbers.share(entry.final_value.mean)} "
        f"with {entry.curve.budgets[-1]} labels (n = {numbers.seeds(n)})."
    )


def _reach(best: StrategySummary, summary: Summary, words: MetricWords) -> str:
    saved, last = best.labels_saved, best.curve.budgets[-1]
    n = numbers.seeds(summary.n)
    if saved is None or saved.mean is None:
        return (
            f"{best.strategy} did not reach {summary.baseline}'s final {words.short} "
            f"within {last} labels (n = {n})."
        )
    basis = f"n = {n}"
    if saved.reached < summary.n:
        basis = f"mean of the {saved.reached} of {n} that reached it"
    return (
        f"{best.strategy} reached {summary.baseline}'s final {words.short} "
        f"with {last - saved.mean:.0f} of {last} labels ({basis})."
    )


def _area(best: StrategySummary, contrast: Contrast, others: int, words: MetricWords) -> str:
    difference = contrast.test.mean_difference
    gap = f"{abs(difference):.3f} {'above' if difference >= 0 else 'below'} {contrast.baseline}'s"
    if others == 1:
        return f"{best.strategy}'s {words.short}, averaged over the curve (AUBC), is {gap}."
    return (
        f"Of the {others} strategies compared with {contrast.baseline}, {best.strategy} has the "
        f"highest {words.short} averaged over the curve (AUBC), {gap}."
    )


def _verdict(contrast: Contrast) -> str:
    p, n = contrast.t_p_holm, contrast.test.n
    if p is None:
        return f"No t-test of that difference is possible: {contrast.test.note}."
    told = f"paired t-test after Holm's correction: p {_equals(p)}, n = {n}"
    if p > LEVEL:
        return f"That is not significant at 5 % ({told}): it may be chance."
    return f"That is significant at 5 % ({told})."


def _is_loss(contrast: Contrast) -> bool:
    significant = contrast.t_p_holm is not None and contrast.t_p_holm <= LEVEL
    return contrast.measure == "aubc" and significant and contrast.test.mean_difference < 0


def _loss(contrast: Contrast) -> str:
    gap = f"{abs(contrast.test.mean_difference):.3f} below {contrast.baseline}'s"
    p = "" if contrast.t_p_holm is None else f" (p {_equals(contrast.t_p_holm)})"
    return f"{contrast.strategy} was worse than {contrast.baseline}: its AUBC is {gap}{p}."


def _equals(p: float) -> str:
    text = numbers.p_value(p)
    return text if text.startswith("<") else f"= {text}"

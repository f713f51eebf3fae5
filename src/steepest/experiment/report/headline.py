"""The outcome in plain words, with no claim that the tests do not carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steepest.core.wording import counted
from steepest.experiment.comparison import Comparison
from steepest.experiment.record import LABELLED_MAPS
from steepest.experiment.report import numbers
from steepest.experiment.report.numbers import MetricWords, words_of
from steepest.experiment.significance import NO_DIFFERENCE, smallest_wilcoxon_p
from steepest.experiment.statistics import Contrast, StrategySummary, Summary

LEVEL = 0.05
_ROUNDING = 1e-12


def headline(summary: Summary) -> tuple[str, ...]:
    """Return the outcome as sentences, the most important first."""
    if not summary.strategies:
        return ("No statistics yet: no run is complete.",)
    words = words_of(summary.metric)
    if summary.baseline is None:
        nothing = "There is no other strategy to compare it with."
        return (_alone(summary.strategies[0], words), nothing)
    contrasts = [c for c in summary.contrasts if c.measure == "aubc"]
    if not contrasts:
        phrase = f"no seed is complete for {summary.baseline} and for another strategy"
        return (f"No comparison yet: {phrase}.",)
    # One seed can be lucky: it leads only where no strategy has more.
    tried = [c for c in contrasts if c.test.n > 1] or contrasts
    best = max(tried, key=lambda contrast: contrast.test.mean_difference)
    entry = next(e for e in summary.strategies if e.strategy == best.strategy)
    sentences = [
        _reach(entry, best.baseline, words),
        _area(best, len(tried), len(contrasts), words, same_seeds=not summary.ragged),
        *_ties(best, tried),
        _verdict(best),
    ]
    sentences += [_loss(c) for c in contrasts if _is_loss(c) and c is not best]
    floor = smallest_wilcoxon_p(best.test.n)
    if best.test.n > 1 and floor > LEVEL:
        # Of few differences nobody can tell whether they are normal, as the t-test supposes.
        alone = best.t_p_holm is not None and best.t_p_holm <= LEVEL
        sentences.append(
            f"Wilcoxon's signed-rank test cannot fall below p = {floor:g} with n = {best.test.n}: "
            "that is too few seeds for it to reach 5 %"
            + (", so this rests on differences being roughly normal." if alone else ".")
        )
    return tuple(sentences)


def completeness(comparison: Comparison, summary: Summary) -> str | None:
    """Return a sentence about missing runs, or None if every run is complete."""
    if summary.runs_complete == summary.runs_expected:
        return None
    text = f"{summary.runs_complete} of {counted(summary.runs_expected, 'run')} complete."
    if comparison.single:
        return f"{text} The page shows the cycles that are there."
    left_out = [name for name in comparison.strategies if name not in comparison.compared]
    if left_out:
        text += f" Without a complete run, and so not compared: {', '.join(left_out)}."
    shown = {entry.strategy: entry.seeds for entry in summary.strategies}
    apart = [name for name in comparison.compared if name not in shown]
    if apart:
        text += (
            f" Without a complete seed that {summary.baseline} has too, and so not compared: "
            f"{', '.join(apart)}."
        )
    if summary.ragged:
        each = "; ".join(f"{name} {_listed(seeds)}" for name, seeds in shown.items())
        return (
            f"{text} Statistics of a strategy use the seeds complete for it and for "
            f"{summary.baseline}: {each}."
        )
    return (
        f"{text} Statistics use the seeds complete for every strategy compared: "
        f"{_listed(summary.seeds)}."
    )


def hidden_labels_read(comparison: Comparison) -> str | None:
    """Return a sentence on strategies that read hidden labels, or None if none did."""
    purposes: dict[str, dict[str, None]] = {}
    for run in comparison.runs.values():
        for entry in run.entries:
            for purpose in entry.get("purposes", ()):
                if purpose != LABELLED_MAPS:
                    purposes.setdefault(run.strategy, {})[purpose] = None
    if not purposes:
        return None
    each = "; ".join(f"{name} for {_quoted(read)}" for name, read in purposes.items())
    return (
        "Hidden labels were read while these strategies trained or chose, so their results may "
        f"rest on labels that they had not paid for: {each}."
    )


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds) or "none"


def _alone(entry: StrategySummary, words: MetricWords) -> str:
    return (
        f"{entry.strategy} reached a {words.name} of {numbers.share(entry.final_value.mean)} "
        f"with {counted(entry.curve.budgets[-1], 'label')} (n = {numbers.seeds(entry.n)})."
    )


def _reach(best: StrategySummary, baseline: str, words: MetricWords) -> str:
    saved, n = best.labels_saved, numbers.seeds(best.n)
    if saved is None or saved.needed is None or saved.baseline_needed is None:
        return (
            f"{best.strategy} did not reach {baseline}'s final {words.short} "
            f"within {best.curve.budgets[-1]} labels (n = {n})."
        )
    if saved.reached < best.n:
        # A mean over those that reached it would be of the best seeds alone.
        return (
            f"{best.strategy} reached {baseline}'s final {words.short} within "
            f"{best.curve.budgets[-1]} labels in {saved.reached} of {n}."
        )
    return (
        f"{best.strategy} reached {baseline}'s final {words.short} with {saved.needed:.0f} "
        f"labels, {baseline} itself with {saved.baseline_needed:.0f} (n = {n})."
    )


def _area(best: Contrast, tried: int, others: int, words: MetricWords, *, same_seeds: bool) -> str:
    baseline, gap = best.baseline, _gap(best)
    if tried == 1:
        phrase = f"{best.strategy}'s {words.short}, averaged over the curve (AUBC), is {gap}."
        alone = f" No other strategy has two complete seeds in common with {baseline}."
        return phrase if others == 1 else phrase + alone
    averaged = f"{words.short} averaged over the curve (AUBC)"
    field = f"Of the {tried} strategies compared with {baseline}"
    if same_seeds:
        return f"{field}, {best.strategy} has the highest {averaged}, {gap}."
    # Means over different seeds cannot be ranked; differences on shared seeds can.
    field += " on two seeds or more" if tried < others else ""
    return f"{field}, each on the seeds both have, {best.strategy} does best in {averaged}: {gap}."


def _gap(contrast: Contrast) -> str:
    difference = contrast.test.mean_difference
    if abs(difference) <= _ROUNDING:
        return f"the same as {contrast.baseline}'s"
    size = f"{abs(difference):.3f}"
    phrase = "less than 0.001" if float(size) == 0 else size
    return f"{phrase} {'above' if difference > 0 else 'below'} {contrast.baseline}'s"


def _ties(best: Contrast, tried: Sequence[Contrast]) -> list[str]:
    """Name those that do exactly as well as the best, which is but the first of them."""
    level = best.test.mean_difference - _ROUNDING
    tied = [c.strategy for c in tried if c is not best and c.test.mean_difference >= level]
    return [f"Level with it to the last digit: {', '.join(tied)}."] if tied else []


def _verdict(contrast: Contrast) -> str:
    p, n = contrast.t_p_holm, contrast.test.n
    if contrast.test.note == NO_DIFFERENCE:
        return f"No seed differs at all (n = {n})."
    if p is None:
        return f"No t-test of that difference is possible: {contrast.test.note}."
    phrase = f"paired t-test after Holm's correction: p {_equals(p)}, n = {n}"
    if p > LEVEL:
        return f"That is not significant at 5 % ({phrase}): it may be chance."
    return f"That is significant at 5 % ({phrase})."


def _is_loss(contrast: Contrast) -> bool:
    significant = contrast.t_p_holm is not None and contrast.t_p_holm <= LEVEL
    return contrast.measure == "aubc" and significant and contrast.test.mean_difference < 0


def _loss(contrast: Contrast) -> str:
    gap = _gap(contrast)
    p = "" if contrast.t_p_holm is None else f" (p {_equals(contrast.t_p_holm)})"
    return f"{contrast.strategy} was worse than {contrast.baseline}: its AUBC is {gap}{p}."


def _equals(p: float) -> str:
    text = numbers.p_value(p)
    return text if text.startswith(("<", ">")) else f"= {text}"

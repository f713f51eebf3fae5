"""The page: everything in one file that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.core.markup import Safe, element, join, paragraph, section, whole_page
from steepest.core.wording import counted
from steepest.experiment.comparison import HARDWARE, VERSIONS, Comparison, recorded
from steepest.experiment.report import numbers
from steepest.experiment.report.diagnosis import classes_section, common_section, regime_section
from steepest.experiment.report.gallery import Pictures, gallery
from steepest.experiment.report.headline import completeness, headline, hidden_labels_read
from steepest.experiment.report.results import (
    curves_section,
    penalty_section,
    results_section,
    tests_section,
)
from steepest.experiment.statistics import Summary


def render_page(
    comparison: Comparison,
    summary: Summary,
    images: Mapping[str, bytes],
    *,
    own_code: bool = False,
) -> str:
    """Return the whole page as HTML.

    Args:
        comparison: The records.
        summary: Their statistics.
        images: The figures by the names of their files.
        own_code: Whether to run code that the configuration names as its data set.
    """
    pictures = Pictures(comparison.config, own_code=own_code, made_with=comparison.data)
    sections = [
        curves_section(comparison, summary, images["learning-curves.svg"]),
        results_section(summary) if summary.strategies else None,
        tests_section(summary, images.get("gains.svg")),
        penalty_section(summary.penalty),
        classes_section(comparison, summary, pictures.classes),
        regime_section(comparison),
        common_section(summary.common),
        gallery(comparison, pictures),
        section("made", "How it was made", _list(_made(comparison))),
    ]
    return whole_page(
        f"{comparison.name}: report",
        _header(comparison, summary),
        element("main", *sections),
        paragraph(_footer(comparison)),
    )


def _header(comparison: Comparison, summary: Summary) -> Safe:
    first, *others = headline(summary)
    warnings = (hidden_labels_read(comparison), completeness(comparison, summary))
    return element(
        "header",
        paragraph("Active learning report", "kicker"),
        element("h1", comparison.name),
        paragraph(first, "headline"),
        paragraph(" ".join(others)) if others else None,
        *(paragraph(text, "warning", role="note") for text in warnings if text),
        _list(_facts(comparison, summary)),
    )


def _facts(comparison: Comparison, summary: Summary) -> list[tuple[str, object]]:
    data = comparison.config.get("data")
    asked = ", ".join(str(seed) for seed in comparison.seeds)
    expected = counted(summary.runs_expected, "run")
    return [
        ("data", data.get("name") if isinstance(data, dict) else None),
        ("strategies", ", ".join(comparison.legend)),
        ("seeds", f"{asked} ({summary.runs_complete} of {expected} complete)"),
        ("labels", _budget(comparison)),
    ]


def _made(comparison: Comparison) -> list[tuple[str, object]]:
    return [
        ("hardware", _made_with(comparison, HARDWARE)),
        ("versions", _made_with(comparison, VERSIONS)),
        _told_commands(comparison.commands),
    ]


def _list(facts: Sequence[tuple[str, object]]) -> Safe:
    known = [(name, value) for name, value in facts if value]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in known)
    )


def _told_commands(commands: Sequence[str]) -> tuple[str, object]:
    codes = [element("code", command) for command in commands]
    if len(codes) < 2:
        return "command", codes[0] if codes else None
    return "commands", join(element("div", code) for code in codes)


def _budget(comparison: Comparison) -> str:
    runs = [run for run in comparison.runs.values() if run.entries]
    longest = max(runs, key=lambda run: len(run.entries), default=None)
    if longest is None:
        return numbers.DASH
    first, last = longest.entries[0], longest.entries[-1]
    cycles = counted(len(longest.entries), "cycle")
    return f"{first['labelled']} to {last['labelled']} in {cycles}"


def _made_with(comparison: Comparison, keys: Sequence[str]) -> str:
    """Return what the records were made with, and whether that is not one thing for all."""
    found = recorded(comparison, keys)
    words = ", ".join(f"{key} {' / '.join(map(str, values))}" for key, values in found.items())
    mixed = any(len(values) > 1 for values in found.values())
    return f"{words} (not the same in all records)" if mixed else words


def _footer(comparison: Comparison) -> str:
    beside = "curves.csv (every cycle of every run), summary.json (every number of this page)"
    kind = "run" if comparison.single else "comparison"
    return f"Written from the records of this {kind}. Beside this page: {beside} and figures/."

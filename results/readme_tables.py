"""Writes every table of ``results/README.md`` again, from the archive that its mark names."""

from __future__ import annotations

import re

from findings_records import RESULTS, read


def write_readme() -> None:
    """Write mean accuracies of complete runs, strategy by strategy."""
    path = RESULTS / "README.md"
    text = re.sub(
        r"(<!-- table: (\S+) -->\n)(?:\|.*\n)*",
        lambda found: found[1] + _table(found[2]),
        path.read_text(encoding="utf-8"),
    )
    path.write_text(text, encoding="utf-8")


def _table(name: str) -> str:
    comparison = read(name)
    complete = {one: comparison.complete_seeds(one) for one in comparison.strategies}
    # A comparison of many seeds tells how many in any case.
    counts = {len(seeds) for seeds in complete.values()}
    counted = len(counts) > 1 or max(counts) > 3
    lines = [("labels", *(["n"] if counted else []), *(f"{b:.0f}" for b in comparison.budgets))]
    for one, seeds in complete.items():
        means = 100 * comparison.curves(one, seeds).mean(0)
        n = [str(len(seeds))] if counted else []
        lines.append((one, *n, *(f"{value:.2f}" for value in means)))
    head, *rows = ["| " + " | ".join(line) + " |\n" for line in lines]
    return head + "|" + "---|" * len(lines[0]) + "\n" + "".join(rows)

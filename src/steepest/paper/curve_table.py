"""A table with a row for each method and a column for each budget or cycle."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.experiment.report.numbers import DASH, signed
from steepest.paper.parts import Row, TablePart, cell


def curve_table(
    title: str, rows: Sequence[Row], place: str = "share", decimals: int = 2, unit: str = " %"
) -> TablePart:
    """Return ours, the published number and the difference of each method.

    Args:
        title: Caption of the table.
        rows: With ``method``, the column ``place``, and what ``measured.row`` gives.
        place: The key that says the column.
        decimals: Of all numbers.
        unit: Said after each place in the header.
    """
    places = sorted({r[place] for r in rows})
    lines: list[tuple[str, ...]] = []
    for method in dict.fromkeys(r["method"] for r in rows):
        own = {r[place]: r for r in rows if r["method"] == method}
        counts = [r["n"] for r in own.values()]
        n = max(counts, default=0)
        seeds = sorted({s for r in own.values() for s in r["seeds"]})
        listed = f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        text = f"ours, n = {n} ({listed})" if n else "ours: not there"
        lines.append((method, text, *(_ours(own.get(p), decimals) for p in places)))
        if any(r["paper"] is not None for r in own.values()):
            lines.append(("", "published", *(_paper(own.get(p), decimals) for p in places)))
        if any(r["difference"] is not None for r in own.values()):
            differences = (
                signed(own[p]["difference"], decimals) if p in own else DASH for p in places
            )
            lines.append(("", "difference", *differences))
    header = ("method", "", *(f"{p}{unit}" for p in places))
    return TablePart(title, header, tuple(lines), _sources(rows))


def _ours(r: Row | None, decimals: int) -> str:
    if r is None or r["ours"] is None:
        return DASH
    spread = "" if r["sd"] is None else f" ± {r['sd']:.{decimals}f}"
    return f"{cell(float(r['ours']), decimals)}{spread}"


def _paper(r: Row | None, decimals: int) -> str:
    if r is None or r["paper"] is None:
        return DASH
    sign = {"at most": "≤ ", "about": "≈ "}.get(r.get("relation", ""), "")
    doubt = " ?" if r.get("uncertain") else ""
    return f"{sign}{cell(float(r['paper']), decimals)}{doubt}"


def _sources(rows: Sequence[Row]) -> str:
    known = list(dict.fromkeys(r["source"] for r in rows if r["source"]))
    return f"Published: {'; '.join(known)}." if known else "No number is published for this."

"""The time of each method, including choosing and auxiliary training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steepest.experiment.record import Record
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, cell
from steepest.paper.published_numbers import Published, row

if TYPE_CHECKING:
    from steepest.paper.workspace import Workspace

_METHODS = ("mc-dropout", "core-set", "vaal", "ll4al", "expected-gradnorm", "entropy-gradnorm")
_DATA = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "caltech101": "Caltech-101",
}
_PARTS = ("training", "auxiliary", "scoring")


@artefact("table-9")
class Time(Artefact):
    """Hours of a whole run, split into training, auxiliary training and choosing."""

    title = "Time of each method over all cycles, selection included"
    paper = "Appendix A.7, Table 9"
    aliases = ("a7", "time")

    def needs(self) -> tuple[Need, ...]:
        """Return the paper's methods on its four data sets, and the rest where it is found."""
        beside = ("random", "entropy", "margin", "qbc", "sraal", "core-gcn", "fisher-gradnorm")
        wanted = [Need(data, _METHODS) for data in _DATA]
        return (*wanted, *(Need(data, beside, only_if_found=True) for data in _DATA))

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Add up the costs on record."""
        rows: list[Row] = []
        hardware: dict[str, None] = {}
        for need in self.needs():
            for strategy in need.strategies:
                runs = [run for run in work.runs(need) if run.strategy == strategy]
                if need.only_if_found and not runs:
                    continue
                hours = {run.seed: sum(_hours(run.records).values()) for run in runs}
                parts = [_hours(run.records) for run in runs]
                number = published.number(40, data=need.setting, method=strategy)
                hardware.update(dict.fromkeys(_device(r) for run in runs for r in run.records))
                made = row(
                    {"data": need.setting, "method": strategy}, hours, number, comparable=False
                )
                means = {
                    p: sum(x[p] for x in parts) / len(parts) if parts else None for p in _PARTS
                }
                rows.append({**made, **{f"{part}_hours": value for part, value in means.items()}})
        notes = (
            f"Ours was measured on {', '.join(hardware) or 'nothing yet'}.",
            "The paper's is of an RTX 2080 Ti: compare ratios between methods, not hours.",
            "Times are of the wall clock: runs that shared a device took longer for it.",
            "A first cycle that was taken over from another run counts with what it cost there.",
        )
        return Findings(tuple(rows), notes)

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return hours, and each method as a multiple of entropy-gradnorm."""
        return tuple(
            _table(title, [r for r in findings.rows if r["data"] == data])
            for data, title in _DATA.items()
        )


def _hours(records: Sequence[Record]) -> dict[str, float]:
    spent = dict.fromkeys(_PARTS, 0.0)
    for record in records:
        for part in _PARTS:
            cost = getattr(record, part)
            spent[part] += 0.0 if cost is None else cost.seconds / 3600
    return spent


def _device(record: Record) -> str:
    threads = record.environment.get("threads")
    name = str(record.environment.get("device", "an unknown device"))
    return f"{name} ({threads} threads)" if name == "cpu" else name


def _table(title: str, rows: Sequence[Row]) -> TablePart:
    base = next((r for r in rows if r["method"] == "entropy-gradnorm"), None)
    header = (
        "method", "n", "training h", "auxiliary h", "choosing h", "ours, all h",
        "ours / entropy-gradnorm", "paper h", "paper / entropy-gradnorm",
    )  # fmt: skip
    lines = tuple(
        (
            r["method"],
            str(r["n"]),
            *(cell(r[f"{part}_hours"], 4) for part in _PARTS),
            cell(r["ours"], 4),
            _ratio(r["ours"], None if base is None else base["ours"]),
            cell(r["paper"]),
            _ratio(r["paper"], None if base is None else base["paper"]),
        )
        for r in rows
    )
    return TablePart(f"{title}: hours of all cycles", header, lines)


def _ratio(value: float | None, base: float | None) -> str:
    return cell(value / base if value is not None and base else None)

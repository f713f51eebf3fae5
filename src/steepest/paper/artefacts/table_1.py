"""Table 1: how many chosen samples are among those of highest true gradient norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steepest.core.seeds import SampleId, derive
from steepest.core.tables import to_table
from steepest.experiment.building import scored_at_once
from steepest.experiment.seeding import selection_seed
from steepest.paper.analyses.overlap import (
    Setting,
    choose_by,
    count_overlaps,
    oracle_norms,
)
from steepest.paper.analyses.ranking import chance_overlap
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, curve_table
from steepest.paper.protocol import share_of
from steepest.paper.published_numbers import Published, row
from steepest.paper.run_examples import examples_of
from steepest.paper.workspace import Workspace
from steepest.selecting.options import SelectionOptions
from steepest.strategies import Needs, Strategy, Support, create

_METHODS = ("core-set", "vaal", "ll4al", "sraal", "expected-gradnorm", "entropy-gradnorm", "random")
_REFERENCE = "entropy-gradnorm"
_PURPOSE = "oracle analysis: true gradient norms of candidates"
_NOTES = (
    (
        "The labels of unlabelled samples are looked up for this analysis alone; nothing is "
        "chosen or trained by them."
    ),
    (
        "Own run: each method by its own models and candidates. Same models: all methods by the "
        f"models and candidates of the run of {_REFERENCE}, of the first seed."
    ),
    (
        "The paper does not say which of the two its numbers are of, nor which norm; its "
        "published code adds up the norms of the parameter tensors (tensor-sum). Its numbers "
        "are put beside all."
    ),
    "After the last cycle the choice is made for this table alone.",
)


@artefact("table-1")
class HighNorms(Artefact):
    """Overlap of each method's choice with the samples of highest true gradient norm."""

    title = "Selected samples that are among the K of highest gradient norm"
    paper = "Table 1"
    aliases = ("overlap",)

    def needs(self) -> tuple[Need, ...]:
        """Return the runs of all methods of the paper's table, and of random as the control."""
        return (Need("cifar10", _METHODS, weights=True),)

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Count overlaps in every cycle of every run."""
        (need,) = self.needs()
        runs = work.runs(need)
        cells: list[dict[str, Any]] = []
        with work.as_far_as_time_allows() as late:
            for run in runs:
                for cycle in range(run.cycles):
                    cells += _own(work, run, cycle)
            for run in [run for run in runs if run.strategy == _REFERENCE][:1]:
                for cycle in range(run.cycles):
                    cells += _same(work, need, run, cycle)
        rows = _rows(cells, published, comparable=work.level.comparable)
        reasons = [f"{c['method']}, {c['setting']}: {c['reason']}." for c in cells if c["reason"]]
        notes = (*_NOTES, *dict.fromkeys(reasons))
        return Findings(rows=rows, notes=notes, missing=tuple(late))

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return a table for each setting and norm."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for one in findings.rows:
            groups.setdefault((one["setting"], one["norm"]), []).append(one)
        return tuple(_table(self.title, key, some) for key, some in groups.items())


def _own(work: Workspace, run: FinishedRun, cycle: int) -> list[dict[str, Any]]:
    """Count one method by its own models."""

    def make() -> list[dict[str, Any]]:
        choice = work.choice_after(run, cycle)
        chosen: Sequence[SampleId] | str = choice or "no committee was trained in the last cycle"
        return _count(work, run, cycle, {run.strategy: chosen}, "own run")

    found: list[dict[str, Any]] = work.remember(f"table-1/own/{run.key}/cycle-{cycle}", make)
    return [{**cell, "seed": run.seed} for cell in found]


def _same(work: Workspace, need: Need, run: FinishedRun, cycle: int) -> list[dict[str, Any]]:
    """Count all methods by one run's models; choices are stored, since some take long."""
    chosen: dict[str, Sequence[SampleId] | str] = {}
    for name in work.strategies(need):
        asked = work.wanted(need, name, run.seed).strategy
        strategy = create(asked.name, asked.options)

        def choose(strategy: Strategy = strategy) -> Sequence[SampleId] | str:
            how = _looking(work, run, cycle, strategy)
            k = _budget(work, run, cycle)
            return choose_by(work.model(run, cycle), work.samples(run), k, strategy, how)

        chosen[name] = work.remember(f"table-1/choices/{run.key}/cycle-{cycle}/{name}", choose)

    def make() -> list[dict[str, Any]]:
        return _count(work, run, cycle, chosen, "same models")

    # Which methods take part is part of the key: another call may ask for more of them.
    key = f"table-1/same/{run.key}/cycle-{cycle}/{'+'.join(chosen)}"
    found: list[dict[str, Any]] = work.remember(key, make)
    return [{**cell, "seed": run.seed} for cell in found]


def _count(
    work: Workspace,
    run: FinishedRun,
    cycle: int,
    chosen: Mapping[str, Sequence[SampleId] | str],
    setting: Setting,
) -> list[dict[str, Any]]:
    ids = work.candidates(run, cycle)
    norms = oracle_norms(
        work.model(run, cycle), work.task(run), examples_of(work, run, ids, _PURPOSE),
        progress=work.progress,
    )  # fmt: skip
    k = _budget(work, run, cycle)
    found = count_overlaps(
        norms, ids, chosen, cycle=cycle, setting=setting, k=k, seed=derive(work.seed, run.seed)
    )
    return [to_table(one) for one in found]


def _budget(work: Workspace, run: FinishedRun, cycle: int) -> int:
    return min(run.config.loop.k, len(work.candidates(run, cycle)))


def _looking(work: Workspace, run: FinishedRun, cycle: int, strategy: Strategy) -> SelectionOptions:
    """Return how the loop looked at the pool in that cycle: the same candidates come out."""
    labelled = work.labelled(run, cycle)
    targets: dict[SampleId, Any] = {}
    if Needs.TARGETS in strategy.needs:
        rows = work.labels(run, labelled, "what the model was trained on")
        targets = dict(zip(labelled, rows, strict=True))
    return SelectionOptions(
        labelled=labelled,
        subset=run.config.loop.candidates,
        seed=selection_seed(run.seed, cycle),
        task=work.task(run),
        batch_size=scored_at_once(work.data(run), work.device),
        progress=work.progress,
        support=Support(targets=targets),
    )


def _rows(
    cells: Sequence[Mapping[str, Any]], published: Published, *, comparable: bool
) -> tuple[Row, ...]:
    """Return a row for each setting, norm, method and cycle, over seeds."""
    groups: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for one in cells:
        key = (one["setting"], one["norm"], one["method"], one["cycle"])
        groups.setdefault(key, []).append(one)
    rows = []
    for (setting, norm, method, cycle), some in groups.items():
        level = chance_overlap(some[0]["k"], some[0]["candidates"])
        about = {
            "data": "cifar10", "setting": setting, "norm": norm, "method": method, "cycle": cycle,
            "share": share_of(cycle), "k": some[0]["k"], "candidates": some[0]["candidates"],
            "chance": level.mean, "chance_sd": level.sd,
        }  # fmt: skip
        values = {one["seed"]: float(one["overlap"]) for one in some if one["overlap"] is not None}
        number = published.number(at=share_of(cycle), method=method)
        rows.append(row(about, values, number, comparable=comparable))
    return tuple(rows)


def _table(title: str, key: tuple[str, str], rows: Sequence[Row]) -> TablePart:
    setting, norm = key
    table = curve_table(f"{title}: {setting}, {norm}", rows, decimals=0)
    first = rows[0]
    chance = (
        f"By chance {first['chance']:.0f} ± {first['chance_sd']:.1f} "
        f"(K² / R with K = {first['k']} and R = {first['candidates']})."
    )
    return TablePart(table.title, table.header, table.rows, f"{chance} {table.note}")

"""A deeper model trained on ResNet-18's picks, and accuracy by class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from steepest.core.seeds import derive
from steepest.data.alterations import take
from steepest.experiment.building import fresh_model
from steepest.experiment.config import ModelPart
from steepest.experiment.report.numbers import signed
from steepest.paper.artefact import Artefact, Findings, artefact
from steepest.paper.needed_runs import Need
from steepest.paper.page_parts import Part, Row, TablePart, cell
from steepest.paper.protocol import TABLE_METHODS
from steepest.paper.published_numbers import Published, row
from steepest.paper.workspace import OutOfTime
from steepest.training import Checkpoint, evaluate, fit

if TYPE_CHECKING:
    from steepest.paper.workspace import Workspace

_OURS = ("expected-gradnorm", "entropy-gradnorm")


@artefact("table-6")
class Ablation(Artefact):
    """ResNet-50 on data that ResNet-18 chose, and how even the classes of SVHN are learnt."""

    title = "ResNet-50 trained on what ResNet-18 chose, and accuracy by class"
    paper = "Appendix A.6, Tables 6 to 8"
    aliases = ("a6", "table-7", "table-8", "ablation")

    def needs(self) -> tuple[Need, ...]:
        """Return what chose, and what is looked at by class."""
        return (
            Need("cifar10", (*TABLE_METHODS, "random")),
            Need("svhn", _OURS),
            Need("cifar10", ("entropy", "margin"), only_if_found=True),
        )

    def compute(self, work: Workspace, published: Published) -> Findings:
        """Train a deeper model on the last labelled set of every run, and read off the classes."""
        chosen, by_class, beside = self.needs()
        untrained: list[str] = []
        rows = _deeper(work, published, chosen, untrained)
        rows += _deeper(work, published, beside, untrained)
        rows += _classes(work, published, by_class)
        notes = (
            f"The deeper model is {work.level.deeper}, trained from nothing by a run's recipe.",
            "It has no say in what was chosen. The paper does not list random here.",
            "A class has in brackets how many test samples the paper has of it.",
        )
        late = f"{work.level.deeper} is not trained on the choice of {', '.join(untrained)} yet"
        return Findings(tuple(rows), notes, (late,) if untrained else ())

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return a table of the deeper model, and one of classes for each method."""
        deeper = [r for r in findings.rows if r["quantity"] == "deeper"]
        parts = [_table("Test accuracy of the deeper model on CIFAR-10 in %", "method", deeper)]
        for method in _OURS:
            own = [r for r in findings.rows if r["quantity"] == "class" and r["method"] == method]
            parts.append(_table(f"Test accuracy by class on SVHN in %, {method}", "class", own))
        return tuple(parts)


def _deeper(work: Workspace, published: Published, need: Need, untrained: list[str]) -> list[Row]:
    """Return the deeper model's accuracies; training runs without time left are named."""
    rows = []
    for strategy in need.strategies:
        runs = [run for run in work.runs(need) if run.strategy == strategy]
        if need.only_if_found and not runs:
            continue
        values = {}
        for run in runs:
            try:
                metrics = train_on_choice(work, run, work.level.deeper)["metrics"]
            except OutOfTime:
                untrained.append(f"{strategy} (seed {run.seed})")
                continue
            values[run.seed] = 100 * float(metrics["accuracy"])
        about = {"quantity": "deeper", "data": "cifar10", "method": strategy, "class": None}
        number = published.number(40, quantity="deeper", method=strategy)
        rows.append(row(about, values, number, comparable=work.level.comparable))
    return rows


def _classes(work: Workspace, published: Published, need: Need) -> list[Row]:
    rows = []
    for strategy in need.strategies:
        runs = [run for run in work.runs(need) if run.strategy == strategy]
        text = published.find(quantity="class", method=strategy)
        most = max([len(r.records[-1].metrics["per_class_accuracy"]) for r in runs], default=0)
        places = range(max(most, *(len(series.at) for series in text)))
        for place in places:
            values = {
                run.seed: 100 * accuracies[place]
                for run in runs
                if place < len(accuracies := run.records[-1].metrics["per_class_accuracy"])
                and accuracies[place] is not None
            }
            count = published.number(place, quantity="count")
            about = {
                "quantity": "class", "data": "svhn", "method": strategy, "class": place,
                "samples": None if count is None else int(count.value),
            }  # fmt: skip
            number = published.number(place, quantity="class", method=strategy)
            rows.append(row(about, values, number, comparable=work.level.comparable))
    return rows


def _table(title: str, head: str, rows: list[Row]) -> TablePart:
    lines = tuple(
        (
            f"{r[head]} ({r['samples']})" if r.get("samples") else str(r[head]),
            cell(r["ours"]),
            cell(r["sd"]),
            f"{r['n']} ({', '.join(map(str, r['seeds']))})" if r["n"] else "0",
            cell(r["paper"]),
            signed(r["difference"], 2),
        )
        for r in rows
    )
    source = next((r["source"] for r in rows if r["source"]), "")
    header = (head, "ours", "sd", "n (seeds)", "paper", "difference")
    return TablePart(title, header, lines, f"Published: {source}." if source else "")


if TYPE_CHECKING:
    from steepest.paper.finished_runs import FinishedRun
    from steepest.paper.workspace import Workspace


def train_on_choice(work: Workspace, run: FinishedRun, model_name: str) -> dict[str, Any]:
    """Train a fresh model on the last labelled set of a run, by the run's recipe, and test it.

    The result is remembered, and a training that was cut short resumes from its last checkpoint.

    Args:
        work: The folder of results.
        run: Whose choice is learnt from.
        model_name: The model.

    Returns:
        ``metrics`` on the test set, the number of ``labels``, and ``seconds``.
    """
    key = f"retrained/{model_name}/{run.key}"
    return dict(work.remember(f"{key}/result", lambda: _train(work, run, model_name, key)))


def _train(work: Workspace, run: FinishedRun, model_name: str, key: str) -> dict[str, Any]:
    data, task = work.data(run), work.task(run)
    ids = sorted(int(i) for i in work.labelled(run, -1))
    model = fresh_model(ModelPart(name=model_name), data, derive(run.seed, "retrained model"))
    checkpoint = Checkpoint(work.folder(key) / "training.safetensors")
    result = fit(
        model,
        task,
        take(data.train_images, ids),
        data.train_labels.unseal_rows(ids, "training on what a run has bought"),
        run.config.training,
        mean=data.mean,
        std=data.std,
        augmentation=data.augmentation,
        seed=derive(run.seed, "retraining"),
        device=work.device,
        progress=work.progress,
        checkpoint=checkpoint,
    )
    metrics = evaluate(
        model,
        task,
        data.test_images,
        data.test_labels,
        mean=data.mean,
        std=data.std,
        device=work.device,
    )
    checkpoint.path.unlink(missing_ok=True)
    kept = {k: v for k, v in metrics.items() if not isinstance(v, float) or math.isfinite(v)}
    return {"metrics": kept, "labels": len(ids), "seconds": result.seconds}

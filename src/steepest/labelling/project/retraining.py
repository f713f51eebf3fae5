"""One round: train on the labels so far, test, and pick the next samples to label."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform, random_subset
from steepest.errors import InputError, RunFolderError
from steepest.labelling.project.batches import VALIDATION, Candidate, write_batch
from steepest.labelling.project.choosing import SPREAD, pick_by_model, pick_spread
from steepest.labelling.project.classifier import describe, save_classifier
from steepest.labelling.project.copies import LEARNABLE, find_copies
from steepest.labelling.project.inputs import FeatureFinder, most_samples
from steepest.labelling.project.learning import Learnt, can_learn, learn, to_targets
from steepest.labelling.project.records import pack, predicted
from steepest.labelling.project.round import Round
from steepest.labelling.project.scanning import check_there, look_closely
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store
from steepest.labelling.project.trainings import claim
from steepest.modules.fingerprint import fingerprint
from steepest.training.probes import Probe, held_out_probabilities

FOLD = "fold"
"""What is said to be the source of opinions on labels that were left out on purpose."""

_KEPT_MODELS = 2
_MOST_ROWS = 100_000
"""Labelled rows of features that a probe learns from at most."""


@dataclass
class Outcome:
    """The results of a round, ready to be written in one transaction."""

    picks: list[Candidate]
    strategy: str
    learnt: Learnt | None = None
    labels: int = 0
    validation: int = 0
    correct: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    opinions: list[tuple[int, str, str]] = field(default_factory=list)


def run_round(
    store: Store, source: Source, token: str, features: FeatureFinder | None = None
) -> bool:
    """Carry out the training that waits.

    Args:
        store: The project's file.
        source: The location of the samples.
        token: Identifies the training.
        features: Finds the features of samples; None makes one that lasts for this round.

    Returns:
        False if none was waiting.

    Raises:
        SteepestError: If it cannot be done.
    """
    started = time.monotonic()
    with store.writing() as connection:
        if claim(connection, token, time.time()) is None:
            return False
    this = Round(store, source, token, features)
    with this.progress.task("looking", 0):
        look_closely(store, source, this.settings)
    outcome = _train(this) or Outcome(pick_spread(this), SPREAD)
    # Copies are left out of the batch when it is written.
    picked = [pick.image for pick in outcome.picks]
    find_copies(store, source, this.settings, among=picked)
    _commit(this, outcome, time.monotonic() - started)
    return True


def _train(this: Round) -> Outcome | None:
    """Return a model's predictions; None if there are too few labels to train one."""
    settings = this.settings
    with this.store.reading() as connection:
        learning, testing = (_list_labelled(connection, this, out) for out in (False, True))
    classes = len(this.classes.names)
    labels = [row["labels"] for row in learning]
    if not can_learn(labels, classes):
        return None
    places, inputs = this.read([row["id"] for row in learning])
    learning = [learning[p] for p in places]
    labels = [row["labels"] for row in learning]
    if not can_learn(labels, classes):
        return None
    learnt = learn(inputs, labels, classes, settings, this.progress)
    outcome = Outcome([], settings.picks_by, learnt, labels=len(labels))
    _test(this, outcome, learnt, testing)
    if isinstance(learnt.model, Probe) and not settings.multi_label:
        outcome.opinions += _hold_out(learning, inputs, learnt.model)
    elif this.folds:
        outcome.opinions += _cross_check(this, learning, inputs)
    outcome.picks, remarks = pick_by_model(this, learnt)
    outcome.metrics |= {k: v for k, v in asdict(remarks).items() if v is not None}
    if remarks.regime is not None:
        outcome.strategy = settings.weak_strategy or settings.picks_by
    return outcome


def _list_labelled(
    connection: sqlite3.Connection, this: Round, held_out: bool
) -> list[sqlite3.Row]:
    # A test on a copy of what was learnt would say nothing.
    rows = connection.execute(
        f"""WITH shown AS ({LEARNABLE})
        SELECT number, id, labels FROM shown WHERE id IS NOT NULL AND held_out = :out AND NOT (:out
        AND content IS NOT NULL AND content IN (SELECT content FROM shown WHERE held_out = 0))
        ORDER BY id""",  # noqa: S608
        {"out": int(held_out)},
    ).fetchall()
    most = _MOST_ROWS if this.probes else most_samples(this.settings.side)
    kept = random_subset([row["id"] for row in rows], most, this.settings.seed, "memory")
    return [rows[i] for i in kept]


def _test(this: Round, outcome: Outcome, learnt: Learnt, rows: Sequence[sqlite3.Row]) -> None:
    places, inputs = this.read([row["id"] for row in rows])
    if not places:
        return
    several = this.settings.multi_label
    truth = [rows[p]["labels"] for p in places]
    said = [pack(values) for values in learnt.probabilities(inputs)]
    outcome.validation = len(places)
    outcome.correct = sum(
        predicted(text, multi_label=several)[0] == label
        for text, label in zip(said, truth, strict=True)
    )
    outcome.opinions += [
        (rows[p]["number"], VALIDATION, text) for p, text in zip(places, said, strict=True)
    ]
    try:
        targets = to_targets(learnt.task, truth)
        outcome.metrics.update(learnt.task.metrics([(learnt.logits(inputs), targets)]))
    except InputError as error:
        outcome.metrics["note"] = str(error)


def _hold_out(
    rows: Sequence[sqlite3.Row], inputs: Tensor, probe: Probe
) -> list[tuple[int, str, str]]:
    """Return the cross-validated predictions of probes."""
    numbers = [json.loads(row["labels"])[0] for row in rows]
    said = held_out_probabilities(inputs, numbers, probe)
    return [
        (row["number"], FOLD, pack(values)) for row, values in zip(rows, said.tolist(), strict=True)
    ]


def _cross_check(
    this: Round, rows: Sequence[sqlite3.Row], inputs: Tensor
) -> list[tuple[int, str, str]]:
    """Return the models' predictions for labels that they were not trained on."""
    settings, classes = this.settings, len(this.classes.names)
    draws = keyed_uniform(settings.seed, "folds", [row["id"] for row in rows])[:, 0]
    fold_of = torch.from_numpy((draws * this.folds).astype("int64"))
    opinions = []
    for fold in range(this.folds):
        rest, here = (fold_of != fold).nonzero()[:, 0], (fold_of == fold).nonzero()[:, 0]
        labels = [rows[i]["labels"] for i in rest.tolist()]
        if not len(here) or not can_learn(labels, classes):
            continue
        learnt = learn(
            inputs[rest], labels, classes, settings, this.progress, purpose=f"fold {fold}"
        )
        said = learnt.probabilities(inputs[here])
        opinions += [
            (rows[i]["number"], FOLD, pack(values))
            for i, values in zip(here.tolist(), said, strict=True)
        ]
    return opinions


def _commit(this: Round, outcome: Outcome, seconds: float) -> None:
    """Write the weights, then all the rest in one transaction."""
    learnt, weights, print_ = outcome.learnt, None, ""
    with this.store.reading() as connection:
        version = _next_version(connection)
    # What is written into a folder that was moved away would stand in the way of its return.
    check_there(this.source, this.store)
    if learnt is not None:
        weights = f"models/version-{version:04d}.safetensors"
        net = this.features.backbone if this.probes else None
        said = describe(learnt, this.classes.names, this.settings, net)
        save_classifier(learnt.model, said, this.store.path.parent / weights)
        print_ = fingerprint(learnt.model)
    with this.store.writing() as connection:
        batch = write_batch(
            connection,
            outcome.picks,
            size=this.answers,
            strategy=outcome.strategy,
            version=None if learnt is None else version,
            fingerprint=print_,
            now=time.time(),
        )
        if any(source == FOLD for _, source, _ in outcome.opinions):
            # Those on the labels before are out of date, and would pile up.
            connection.execute("DELETE FROM opinions WHERE source = ?", (FOLD,))
        connection.executemany(
            "INSERT OR REPLACE INTO opinions VALUES (?, ?, ?, ?)",
            [(version, *opinion) for opinion in outcome.opinions],
        )
        changed = connection.execute(
            """UPDATE trainings SET status = 'done', version = ?, finished_at = ?, labels = ?,
            validation = ?, correct = ?, metrics = ?, seconds = ?, weights = ?, fingerprint = ?,
            batch = ? WHERE token = ? AND status = 'running'""",
            (
                *(None if learnt is None else version, time.time(), outcome.labels),
                *(outcome.validation, outcome.correct, json.dumps(outcome.metrics), seconds),
                *(weights, print_, batch, this.token),
            ),
        ).rowcount
        if not changed:
            raise RunFolderError("another process has taken over this training")
    for old in sorted((this.store.path.parent / "models").glob("version-*"))[:-_KEPT_MODELS]:
        old.unlink(missing_ok=True)


def _next_version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT ifnull(max(version), 0) + 1 FROM trainings").fetchone()
    return int(row[0])

"""Predictions of the latest model for every image without a label."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.progress import Progress, SilentProgress
from steepest.errors import InputError
from steepest.labelling.names import SEMICOLON
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.classifier import load_classifier
from steepest.labelling.project.exporting import list_labels
from steepest.labelling.project.inputs import FeatureFinder, check_home, read_squares
from steepest.labelling.project.records import Labels
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store

FILE_NAME = "models/predictions.safetensors"
ACCEPTED = "accepted:"
"""Begins what stands for the browser of answers that accepted predictions, before the number of
the decision."""

_VERSION = "version"
_NET_AT_ONCE, _ROWS_AT_ONCE = 128, 8192
_UNLABELLED = """SELECT number, id FROM images WHERE labels IS NULL AND missing = 0
    AND unreadable IS NULL AND copy_of IS NULL ORDER BY id"""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of one model for images without a label.

    Attributes:
        version: The model.
        images: Numbers of the images [N].
        probabilities: Of each class [N, K].
    """

    version: int
    images: Tensor
    probabilities: Tensor


class PredictedRow(NamedTuple):
    """An image with its label or its prediction.

    Attributes:
        sample: The image.
        labels: Its classes.
        probability: How likely they are in the model's eyes; None for labels of people.
        source: ``person``, ``accepted`` (a prediction that a person accepted), ``copy`` (the label
            of a file with the same bytes) or ``model``.
        image: Its number.
    """

    sample: str
    labels: Labels
    probability: float | None
    source: str
    image: int = 0


def find_model(store: Store) -> tuple[int, Path] | None:
    """Return the latest model's version and its file; None if there is none."""
    with store.reading() as connection:
        row = connection.execute(
            "SELECT version, weights FROM trainings WHERE weights IS NOT NULL "
            "ORDER BY version DESC LIMIT 1"
        ).fetchone()
    if row is None:
        return None
    path = store.path.parent / row["weights"]
    return (int(row["version"]), path) if path.is_file() else None


def predict_all(
    store: Store,
    source: Source,
    settings: Settings,
    features: FeatureFinder,
    progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> int | None:
    """Predict every image without a label by the latest model, and store the results.

    Where a probe learns, images whose features are not there yet are left out.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: The current settings.
        features: Finds the features of samples.
        progress: Updated after each part.
        stop: Whether to give up; asked after each part.

    Returns:
        How many images there are predictions for; None if there is no model, or it was stopped.
    """
    found = find_model(store)
    if found is None:
        return None
    version, path = found
    code = settings.backbone if settings.way == "probe" else settings.model
    model = load_classifier(path, code=code, device=settings.device)
    with store.reading() as connection:
        rows = connection.execute(_UNLABELLED).fetchall()
    number_of = {row["id"]: int(row["number"]) for row in rows}
    images: list[int] = []
    parts: list[Tensor] = []
    with progress.task("predicting", len(number_of)) as step:
        read = _read_rows if model.description.backbone else _read_pixels
        samples = list(number_of)
        size = _ROWS_AT_ONCE if model.description.backbone else _NET_AT_ONCE
        for start in range(0, len(samples), size):
            if stop():
                return None
            part = samples[start : start + size]
            names, inputs = read(store, source, settings, features, part)
            if names:
                images += [number_of[name] for name in names]
                parts.append(model.from_inputs(inputs).float())
            step.advance(len(part))
    table = torch.cat(parts) if parts else torch.empty(0, len(model.classes))
    tensors = {"images": torch.tensor(images, dtype=torch.int64), "probabilities": table}
    data = safetensors.torch.save(tensors, metadata={_VERSION: str(version)})
    check_home(store)
    write_atomically(store.path.parent / FILE_NAME, data)
    return len(images)


def _read_rows(
    store: Store,
    source: Source,
    settings: Settings,
    features: FeatureFinder,
    samples: Sequence[str],
) -> tuple[list[str], Tensor]:
    del store, source
    return features.find(settings).known(samples)


def _read_pixels(
    store: Store,
    source: Source,
    settings: Settings,
    features: FeatureFinder,
    samples: Sequence[str],
) -> tuple[list[str], Tensor]:
    del features
    side = settings.as_net().side
    places, squares = read_squares(store, source, samples, side, settings, SilentProgress())
    return [samples[place] for place in places], squares


def read_predictions(folder: Path) -> Predictions | None:
    """Return the stored predictions of a project; None if there are none."""
    path = folder / FILE_NAME
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            version = int((file.metadata() or {})[_VERSION])
            images, table = file.get_tensor("images"), file.get_tensor("probabilities")
    except (OSError, KeyError, ValueError, safetensors.SafetensorError):
        return None
    fits = images.ndim == 1 and table.ndim == 2 and len(images) == len(table)
    return Predictions(version, images, table) if fits else None


def list_predictions(store: Store, settings: Settings) -> tuple[int | None, list[PredictedRow]]:
    """Return the latest model's version, and its predictions of images without a label."""
    kept = read_predictions(store.path.parent)
    if kept is None:
        return None, []
    with store.reading() as connection:
        classes = ClassList.load(connection, multi_label=settings.multi_label)
        names = {int(row["number"]): row["id"] for row in connection.execute(_UNLABELLED)}
    return kept.version, list(_rows(kept, classes, names))


def _rows(kept: Predictions, classes: ClassList, names: dict[int, str]) -> Iterator[PredictedRow]:
    if kept.probabilities.shape[1] > len(classes.names):
        return
    table = kept.probabilities.double()
    if classes.multi_label:
        sure = torch.maximum(table, 1 - table).min(1).values.tolist() if len(table) else []
        for image, row, value in zip(kept.images.tolist(), table.tolist(), sure, strict=True):
            if image in names:
                said = tuple(classes.names[k] for k, p in enumerate(row) if p > 0.5)
                yield PredictedRow(names[image], said, value, "model", image)
        return
    if not table.shape[1]:
        return
    best, places = table.max(1)
    for image, value, k in zip(kept.images.tolist(), best.tolist(), places.tolist(), strict=True):
        if image in names:
            yield PredictedRow(names[image], (classes.names[k],), value, "model", image)


def list_everything(store: Store, settings: Settings) -> list[PredictedRow]:
    """Return all images that have a label or a prediction, in the order of their ids."""
    with store.reading() as connection:
        accepted = {
            row["id"]
            for row in connection.execute(
                """SELECT i.id FROM images i JOIN current c ON c.image = i.number
                JOIN answers a ON a.number = c.answer WHERE a.browser LIKE ?""",
                (f"{ACCEPTED}%",),
            )
        }
        labelled = list_labels(connection, settings)
    rows = [
        PredictedRow(
            row.sample,
            row.labels,
            None,
            "copy" if row.copy_of else "accepted" if row.sample in accepted else "person",
        )
        for row in labelled
    ]
    predicted = list_predictions(store, settings)[1]
    return sorted([*rows, *predicted, *_copies_of(store, predicted)])


def _copies_of(store: Store, predicted: Sequence[PredictedRow]) -> Iterator[PredictedRow]:
    """Yield the copies of samples with a prediction, which is theirs too."""
    row_of = {row.image: row for row in predicted}
    with store.reading() as connection:
        copies = connection.execute(
            """SELECT number, id, copy_of FROM images
            WHERE copy_of IS NOT NULL AND labels IS NULL AND missing = 0"""
        ).fetchall()
    for copy in copies:
        original = row_of.get(copy["copy_of"])
        if original is not None:
            yield original._replace(sample=copy["id"], image=copy["number"])


def predictions_text(rows: Sequence[PredictedRow], kind: str) -> str:
    """Return images with labels or predictions as a table, or as JSON lines."""
    if kind == "jsonl":
        lines = (
            {"id": r.sample, "labels": list(r.labels), "source": r.source}
            | ({} if r.probability is None else {"probability": round(r.probability, 5)})
            for r in rows
        )
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("id", "label", "probability", "source"))
    for r in rows:
        sure = "" if r.probability is None else f"{r.probability:.5f}"
        table.writerow((r.sample, SEMICOLON.join(r.labels) or SEMICOLON, sure, r.source))
    return text.getvalue()


def write_predictions(store: Store, settings: Settings, path: Path) -> int:
    """Write all images that have a label or a prediction to a .csv or .jsonl file.

    Returns:
        How many.

    Raises:
        InputError: If it has another name, is there already, or cannot be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("csv", "jsonl"):
        raise InputError(f"{path}: predictions are written as .csv or .jsonl")
    if path.exists():
        raise InputError(f"{path} is there already; choose another name")
    rows = list_everything(store, settings)
    write_atomically(path, predictions_text(rows, kind))
    return len(rows)

"""Labels to look at again: models that never saw them are sure of something else."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.following import SHOWN_BY
from steepest.labelling.project.project import Project
from steepest.labelling.project.records import Labels


@dataclass(frozen=True)
class Suspicion:
    """A label that a model doubts.

    Attributes:
        sample: The sample.
        labels: What people say.
        predicted: What the model says.
        label_probability: How likely people are right in its eyes.
        probability: How likely it is right itself in its eyes.
        version: The model, or the round of models.
        source: Why it had not seen the label: ``pick`` (it came before the label),
            ``validation`` (never trained on) or ``fold`` (left out on purpose).
    """

    sample: str
    labels: Labels
    predicted: Labels
    label_probability: float
    probability: float
    version: int
    source: str


def suspicious(project: Project, *, limit: int = 50, margin: float = 0.3) -> list[Suspicion]:
    """Return labels that models doubt, the most doubtful first.

    Each sample is judged by the latest model that did not train on its label. One that somebody
    labelled again, or more people than were asked, is not listed: it was looked at twice.

    Args:
        project: Whose labels.
        limit: How many at most.
        margin: By how much the model must prefer its own answer.

    Raises:
        InputError: If the margin is not between 0 and 1.
    """
    if not 0 <= margin <= 1:
        raise InputError(f"margin is {margin}; use 0 to 1")
    with project.store.reading() as connection:
        classes = ClassList.load(connection, multi_label=project.settings.multi_label)
        rows = connection.execute(_OPINIONS, (project.settings.overlap,)).fetchall()
    found = [doubt for row in rows if (doubt := _judge(row, classes)) is not None]
    strong = [d for d in found if d.probability - d.label_probability >= margin]
    strong.sort(key=lambda d: (d.label_probability - d.probability, d.sample))
    return strong[:limit]


# SQLite takes the other columns from the row of the maximum.
_OPINIONS = f"""SELECT {SHOWN_BY} AS shown, i.labels, o.source, o.probabilities,
    max(o.version) AS version
    FROM (
        SELECT image, version, source, probabilities FROM opinions
        UNION ALL
        SELECT p.image, b.version, 'pick', p.predicted FROM picks p
        JOIN batches b ON b.number = p.batch WHERE b.version IS NOT NULL
    ) o JOIN images i ON i.number = o.image
    WHERE i.labels IS NOT NULL AND i.votes <= ? AND shown IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM current c JOIN answers a ON a.number = c.answer
        WHERE c.image = i.number AND a.kind = 'relabel')
    GROUP BY i.number"""  # noqa: S608


def _judge(row: sqlite3.Row, classes: ClassList) -> Suspicion | None:
    """Return the model's doubt about one label; None if it agrees, or did not know the class."""
    values: list[float] = json.loads(row["probabilities"])
    label = set(json.loads(row["labels"]))
    if not values or max(label, default=0) >= len(values):
        return None
    if classes.multi_label:
        said = {k for k, value in enumerate(values) if value > 0.5}
        right = min(value if k in label else 1 - value for k, value in enumerate(values))
        sure = 1 - right
    else:
        best = max(range(len(values)), key=values.__getitem__)
        said, right, sure = {best}, values[next(iter(label))], values[best]
    if said == label:
        return None
    return Suspicion(
        row["shown"],
        tuple(classes.names[k] for k in sorted(label)),
        tuple(classes.names[k] for k in sorted(said)),
        right,
        sure,
        row["version"],
        row["source"],
    )

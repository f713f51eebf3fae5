"""Reads annotations of Label Studio as answers about the pool's samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId
from steepest.errors import InputError, SteepestError, UnknownNameError
from steepest.labelling.exchange.answers import Answer, id_finder
from steepest.labelling.exchange.folder import SERVER, LoopFolder
from steepest.labelling.exchange.ingest import Ingested, ingest_answers
from steepest.labelling.exchange.maps import map_label
from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION
from steepest.labelling.formats.base import read_text
from steepest.labelling.label_studio.masks import draw_map, vote_map
from steepest.labelling.label_studio.tasks import ID, KEY
from steepest.labelling.project.ledger import ProjectPool
from steepest.pool.values import Label

DISAGREEMENTS = ("refuse", "majority")
Json = Mapping[str, Any]


@dataclass
class Rules:
    """Rules for reading annotations.

    Attributes:
        folder: The loop.
        pool: Its samples.
        background: The class of unpainted pixels; None leaves them unknown.
        disagreement: ``"refuse"`` or ``"majority"``, where annotators differ.
        drawn: Labels of masks by annotation and time, so that no mask is drawn twice.
    """

    folder: LoopFolder
    pool: ProjectPool
    background: str | None = None
    disagreement: str = "refuse"
    drawn: dict[tuple[Any, ...], Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.disagreement not in DISAGREEMENTS:
            raise UnknownNameError("way to settle", self.disagreement, DISAGREEMENTS)
        if self.background is not None:
            if self.folder.vocabulary.task != SEGMENTATION:
                raise InputError("a background is for segmentation; leave it out")
            self.folder.vocabulary.number(self.background)


@dataclass(frozen=True)
class Read:
    """Answers read from a Label Studio project.

    Attributes:
        answers: One per sample that has one.
        asked: The samples that have a task.
    """

    answers: list[Answer]
    asked: frozenset[SampleId]


def ingest_export(
    path: Path,
    folder: LoopFolder,
    *,
    relabel: bool = False,
    background: str | None = None,
    disagreement: str = "refuse",
) -> Ingested:
    """Ingest a file of Label Studio's *Export*, as ``ingest`` does those of other formats.

    Args:
        path: The file.
        folder: The loop's folder.
        relabel: Whether labels on record may be replaced.
        background: The class of unpainted pixels; None leaves them unknown.
        disagreement: ``"refuse"`` or ``"majority"``, where annotators differ.

    Raises:
        InputError: If the file cannot be used; the pool is then unchanged.
        PoolError: If it contradicts the records; the pool is then unchanged.
    """

    def read(pool: ProjectPool) -> list[Answer]:
        return read_export(path, Rules(folder, pool, background, disagreement))

    return ingest_answers(path, folder, read, relabel=relabel, who=f"{SERVER}unknown")


def read_export(path: Path, rules: Rules) -> list[Answer]:
    """Read the file that Label Studio's *Export*, format JSON, gives.

    Raises:
        InputError: If it is no such file, or says what cannot be.
    """
    try:
        tasks = parse_json(read_text(path))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no JSON ({error})") from error
    if not isinstance(tasks, list) or not all(isinstance(t, dict) and "data" in t for t in tasks):
        raise InputError(
            f"{path}: is no export of Label Studio; export in its format JSON, or add --format"
        )
    if not tasks:
        raise InputError(f"{path}: holds no tasks; give a file with labels")
    read = read_tasks(tasks, rules, str(path))
    if not read.asked:
        raise InputError(f"{path}: none of its {len(tasks)} tasks has a {ID}; push them first")
    return read.answers


def read_tasks(tasks: Iterable[Json], rules: Rules, source: str) -> Read:
    """Return one answer per sample out of all annotations of all its tasks.

    Raises:
        InputError: If a task is of another pool, or its annotations cannot be read or agree.
    """
    key = rules.folder.key(rules.pool)
    said: dict[SampleId, list[tuple[Json, Json]]] = {}
    find = id_finder(rules.pool)
    for task in tasks:
        where = f"{source}, task {task.get('id', '?')}"
        data = task.get("data")
        if not isinstance(data, dict) or ID not in data:
            continue  # someone else put it there
        if data.get(KEY, key) != key:
            raise InputError(f"{where}: belongs to another pool or other classes; see --title")
        try:
            sample = find(data[ID])
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        given = task.get("annotations", [])
        if not isinstance(given, list) or not all(isinstance(a, dict) for a in given):
            raise InputError(f"{where}: has no list of annotations; export in the format JSON")
        said.setdefault(sample, []).extend((task, a) for a in _latest(given))
    answers = [_settle(sample, votes, rules, source) for sample, votes in said.items() if votes]
    return Read([a for a in answers if a is not None], frozenset(said))


def _latest(annotations: Sequence[Json]) -> list[Json]:
    """Return the last annotation of each person; those marked as ground truth alone, if any."""
    kept = [a for a in annotations if a.get("ground_truth")] or annotations
    newest: dict[str, Json] = {}
    for annotation in sorted(kept, key=lambda a: str(a.get("updated_at", ""))):
        newest[_person(annotation)] = annotation
    return list(newest.values())


def _person(annotation: Json) -> str:
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        person = person.get("id") or person.get("email")
    return str(person if person is not None else "unknown")


def _settle(
    sample: SampleId, votes: Sequence[tuple[Json, Json]], rules: Rules, source: str
) -> Answer | None:
    """Return the combined label of several annotations, or None if they have none."""
    labels: list[tuple[str, Label, Any]] = []
    skips: list[str] = []
    for task, annotation in votes:
        where = f"{source}, task {task.get('id', '?')}"
        if annotation.get("was_cancelled"):
            skips.append(_person(annotation))
            continue
        try:
            found = _label(annotation, rules)
        except (SteepestError, KeyError, TypeError, AttributeError) as error:
            said = error if isinstance(error, SteepestError) else "it has an unknown form"
            raise InputError(f"{where}: annotation cannot be read: {said}") from error
        if found is not None:
            labels.append((_person(annotation), *found))
    place = f"task {votes[0][0].get('id', '?')}"
    if not labels:
        who = SERVER + "+".join(sorted(skips))
        return Answer(sample, None, "skipped", who, place) if skips else None
    return _agree(sample, labels, rules, place, source)


def _agree(
    sample: SampleId,
    labels: Sequence[tuple[str, Label, Any]],
    rules: Rules,
    place: str,
    source: str,
) -> Answer:
    who = SERVER + "+".join(sorted(person for person, _, _ in labels))
    counted = Counter(json.dumps(label) for _, label, _ in labels).most_common(2)
    if len(counted) > 1 and rules.disagreement == "majority":
        if rules.folder.vocabulary.task == SEGMENTATION:
            draw = partial(vote_map, [draw for _, _, draw in labels])
            return Answer(sample, map_label(draw()), "", who, place, draw)
        if counted[0][1] > counted[1][1]:
            counted = counted[:1]
    if len(counted) > 1:
        one, other = (rules.folder.say(json.loads(text)) for text, _ in counted)
        remedy = (
            "settle it there"
            if rules.disagreement == "majority"
            else "settle it there, or add --disagreement majority"
        )
        raise InputError(
            f"{source}, {place}: annotators disagree about sample {sample!r} "
            f"({one!r}, {other!r}); {remedy}"
        )
    chosen = json.loads(counted[0][0])
    _, label, draw = next(found for found in labels if found[1] == chosen)
    return Answer(sample, label, "", who, place, draw)


def _label(annotation: Json, rules: Rules) -> tuple[Label, Any] | None:
    """Return the label of one annotation and how to draw it, or None if it holds none."""
    words, result = rules.folder.vocabulary, annotation["result"]
    if words.task == SEGMENTATION:
        number = None if rules.background is None else words.number(rules.background)
        draw = partial(draw_map, result, words, number)
        if not any("labels" in str(region.get("type", "")) for region in result):
            return None
        name = (annotation.get("id"), annotation.get("updated_at"), number)
        if name not in rules.drawn or None in name[:2]:
            rules.drawn[name] = map_label(draw())
        return rules.drawn[name], draw
    chosen = [
        name
        for region in result
        if region.get("type") == "choices"
        for name in region["value"]["choices"]
    ]
    if not chosen and words.task != MULTI_LABEL:
        return None
    return words.from_names(chosen), None

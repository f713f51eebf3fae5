"""Tasks of Label Studio: the labelling configuration, and picks with picture, score and guess."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from steepest.core.seeds import SampleId
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.rounds import Numbered, Round
from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION, Vocabulary
from steepest.labelling.label_studio.masks import BRUSH, IMAGE, POLYGON, make_regions
from steepest.labelling.label_studio.pictures import Gallery
from steepest.pool.values import Label

CHOICES = "label"
"""The name of the classes' control, which results refer to."""

_CONTROLS = {
    "classification": {"Choices"},
    "multi-label": {"Choices"},
    "segmentation": {"BrushLabels", "PolygonLabels"},
}


def make_config(words: Vocabulary) -> str:
    """Return the configuration, in Label Studio's markup, for a task and its classes."""
    image = f'<Image name="{IMAGE}" value="${IMAGE}" zoom="true"/>'
    if words.task == SEGMENTATION:
        labels = "".join(f"<Label value={quoteattr(name)}/>" for name in words.names)
        controls = "".join(
            f'<{tag} name="{name}" toName="{IMAGE}">{labels}</{tag}>'
            for tag, name in (("BrushLabels", BRUSH), ("PolygonLabels", POLYGON))
        )
        return f"<View>{image}{controls}</View>"
    several = words.task == MULTI_LABEL
    # Of several classes none may be right; of one it may not.
    asked = 'choice="multiple"' if several else 'choice="single" required="true"'
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in words.names)
    return (
        f'<View>{image}<Choices name="{CHOICES}" toName="{IMAGE}" {asked} showInline="true">'
        f"{choices}</Choices></View>"
    )


def find_difference(parsed: Mapping[str, Any], words: Vocabulary) -> str:
    """Say why a project's configuration does not ask what this loop asks; empty if it does.

    Args:
        parsed: The configuration as the server describes it, by the controls' names.
        words: The loop's task and classes.
    """
    wanted = _CONTROLS[words.task]
    found = [c for c in parsed.values() if c.get("type") in wanted]
    if not found:
        return f"it has no {' or '.join(sorted(wanted))}"
    for control in found:
        labels = set(control.get("labels", ()))
        if labels != set(words.names):
            odd = sorted(labels ^ set(words.names))
            return f"its classes differ ({', '.join(map(str, odd[:3]))})"
    return ""


ID, KEY = "steepest_id", "steepest_pool"
MODEL_VERSION = "steepest"
"""One name for all rounds: Label Studio orders only tasks of one model version."""

Task = dict[str, Any]


@dataclass(frozen=True)
class Pick:
    """One sample to be labelled.

    Attributes:
        id: The sample.
        rank: 1 is the most wanted of its round.
        score: As the strategy gave it.
        guess: The model's own label, if it was asked.
        round: The number of its round.
        model: Fingerprint of the model that chose it.
    """

    id: SampleId
    rank: int
    score: float
    guess: Label | None
    round: int
    model: str


def picks_of(made: Round, number: int) -> Iterator[Pick]:
    """Yield the picks of a round, best first."""
    picks = made.picks
    guesses = made.guesses or (None,) * len(picks)
    for sample, rank, score, guess in zip(
        picks.ids, picks.ranks, picks.scores, guesses, strict=True
    ):
        known = 0.0 if math.isnan(score) else score  # JSON has no unknown number.
        yield Pick(sample, rank, known, guess, number, picks.model)


def make_task(
    pick: Pick, image_url: str, size: tuple[int, int] | None, folder: LoopFolder, key: str
) -> Task:
    """Return a task as Label Studio imports it.

    Args:
        pick: The sample.
        image_url: Where the browser finds its picture.
        size: The picture's (height, width); None leaves the guess of a mask out.
        folder: The loop.
        key: The identity of the loop's pool.
    """
    return {
        "data": {
            IMAGE: image_url,
            ID: pick.id,
            "steepest_score": pick.score,
            "steepest_rank": pick.rank,
            "steepest_round": pick.round,
            "steepest_model": pick.model,
            KEY: key,
        },
        "predictions": [
            {
                "model_version": MODEL_VERSION,
                "score": order_score(pick.rank),
                "result": _result(pick.guess, size, folder),
            }
        ],
    }


def order_score(rank: int) -> float:
    """Return the score that makes Label Studio serve our best first: it takes the lowest.

    Ranks and not scores, because those of two models cannot be compared: of several rounds, the
    first ones come first, then the second ones.
    """
    return 1 - 1 / rank


def _result(
    guess: Label | None, size: tuple[int, int] | None, folder: LoopFolder
) -> list[dict[str, Any]]:
    words = folder.vocabulary
    if guess is None:
        return []
    if words.task == SEGMENTATION:
        return [] if size is None else make_regions(folder.maps.load(guess), words, size)
    chosen = guess if isinstance(guess, list) else [guess]
    names = [words.names[c] for c in chosen if isinstance(c, int)]
    if not names:
        return []
    value = {"choices": names}
    return [{"from_name": CHOICES, "to_name": IMAGE, "type": "choices", "value": value}]


def tasks_text(made: Sequence[Numbered], folder: LoopFolder) -> str:
    """Return picks as a file of tasks that Label Studio imports, with the pictures inside.

    Args:
        made: Rounds, or parts of them, in the order in which people should see them.
        folder: The loop.
    """
    gallery, key = Gallery(folder.source), folder.key(folder.read_pool())
    tasks = []
    for number, part in made:
        for pick in picks_of(part, number):
            shown = gallery.picture(pick.id)
            tasks.append(make_task(pick, shown.data_url, shown.size, folder, key))
    return json.dumps(tasks) + "\n"

"""One round of picks as a file: what was asked for, what was chosen, what the model thinks."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.errors import JournalError
from steepest.pool.values import Label
from steepest.selecting.selection import Selection


@dataclass(frozen=True)
class Round:
    """Picks that were, or are to be, sent to people.

    Attributes:
        picks: The selection.
        guesses: The model's own label of each pick [k]; empty if it was not asked.
        request: What decided about the picks besides the pool's state.
    """

    picks: Selection
    guesses: tuple[Label, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)


Numbered = tuple[int, Round]
"""A round, or a part of one, and the round's number."""


def part_of(made: Round, ids: Collection[SampleId]) -> Round:
    """Return a round with some of its picks alone, in its order."""
    picks, wanted = made.picks, set(ids)
    places = [place for place, sample in enumerate(picks.ids) if sample in wanted]
    left = replace(
        picks,
        ids=tuple(picks.ids[place] for place in places),
        scores=tuple(picks.scores[place] for place in places),
        # It is about all of them.
        verdict=picks.verdict if len(places) == len(picks) else None,
    )
    guesses = tuple(made.guesses[place] for place in places) if made.guesses else ()
    return Round(left, guesses, made.request)


def write_round(made: Round, path: Path) -> None:
    """Write a round; a crash leaves the old file or the new one."""
    table = {
        "request": made.request,
        "guesses": list(made.guesses),
        "selection": to_table(made.picks),
    }
    write_atomically(path, json.dumps(table, indent=1) + "\n")


def read_round(path: Path) -> Round:
    """Read what ``write_round`` wrote.

    Raises:
        JournalError: If the file is gone or damaged.
    """
    try:
        table = parse_json(path.read_text(encoding="utf-8"))
        picks = from_table(Selection, table["selection"])
        return Round(picks, tuple(table["guesses"]), dict(table["request"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path}: is damaged ({error}); restore it from a copy") from error

"""Rounds of picks: the request, the chosen samples, and the model's predictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
        request: The settings that determined the picks besides the pool's state.
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


def round_to_table(made: Round) -> dict[str, Any]:
    """Return a round as plain values."""
    return {
        "request": made.request,
        "guesses": list(made.guesses),
        "selection": to_table(made.picks),
    }


def round_from_table(table: Any, where: str) -> Round:  # noqa: ANN401 - whatever JSON holds
    """Return the round that ``round_to_table`` made plain values of.

    Raises:
        JournalError: If it is none; names ``where``.
    """
    try:
        picks = from_table(Selection, table["selection"])
        return Round(picks, tuple(table["guesses"]), dict(table["request"]))
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{where} is damaged ({error}); restore it from a copy") from error


def put_together(made: Sequence[Numbered]) -> Selection:
    """Return all picks of some rounds as one selection; what holds for all is the last one's."""
    parts = [part.picks for _, part in made]
    return replace(
        parts[-1],
        ids=tuple(sample for picks in parts for sample in picks.ids),
        scores=tuple(score for picks in parts for score in picks.scores),
        verdict=parts[-1].verdict if len(parts) == 1 else None,
    )

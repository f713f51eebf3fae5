"""What was asked for and has no answer yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steepest.core.seeds import SampleId
from steepest.labelling.exchange.folder import SERVER, LoopFolder, next_round
from steepest.labelling.exchange.rounds import Numbered, Round, part_of
from steepest.labelling.project.ledger import ProjectPool
from steepest.pool import State, Verb
from steepest.selecting.selection import Selection

_NO_SCORE = float("nan")


def find_waiting(folder: LoopFolder, pool: ProjectPool) -> list[Numbered]:
    """Return what still waits of each round, oldest first; rounds without any are left out.

    Before them comes what no round of this kind has asked for: samples whose answer was taken back,
    on which people are split, or that a program asks about.

    Args:
        folder: The loop.
        pool: Its pool as it is.

    Raises:
        JournalError: If a round is damaged.
    """
    open_ids = set(pool.ids(State.QUERIED))
    asked_in: dict[SampleId, int] = {}
    for event in pool.events():
        if event.verb is Verb.QUERY and event.id in open_ids and not event.who.startswith(SERVER):
            asked_in[event.id] = event.cycle
    found: list[Numbered] = []
    rounds = folder.rounds()
    for number in sorted(set(asked_in.values()) & rounds.keys()):
        made = rounds[number]
        part = part_of(made, [i for i in made.picks.ids if asked_in.get(i) == number])
        open_ids -= set(part.picks.ids)
        if part.picks.ids:
            found.append((number, part))
    rest = tuple(sample for sample in pool.ids() if sample in open_ids)
    if rest:
        strange = Selection(rest, (_NO_SCORE,) * len(rest), strategy="")
        found.insert(0, (max(next_round(pool) - 1, 0), Round(strange)))
    return found


def put_together(made: Sequence[Numbered]) -> Selection:
    """Return all picks of some rounds as one selection; what holds for all is the last one's."""
    parts = [part.picks for _, part in made]
    return replace(
        parts[-1],
        ids=tuple(sample for picks in parts for sample in picks.ids),
        scores=tuple(score for picks in parts for score in picks.scores),
        verdict=parts[-1].verdict if len(parts) == 1 else None,
    )

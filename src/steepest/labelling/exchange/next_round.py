"""The next round of a loop: chosen anew, or the last one again if nothing has happened since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steepest.labelling.exchange.folder import JOURNAL, LoopFolder, next_round
from steepest.labelling.exchange.rounds import Round, read_round
from steepest.pool import Pool, Verb
from steepest.pool.values import Label
from steepest.scoring.selection import Selection
from steepest.seeds import SampleId


def take_round(
    folder: LoopFolder,
    ids: Sequence[SampleId],
    request: dict[str, Any],
    choose: Callable[[Pool], Selection],
    guess: Callable[[Sequence[SampleId]], tuple[Label, ...]],
    *,
    more: bool = False,
) -> tuple[Round, int, bool]:
    """Return a round, its number, and whether it is the last one again.

    The same request, with nothing labelled since the last round, gives that round again: a
    command that was cut short, or is repeated by a script, asks nobody twice.

    Args:
        folder: The loop; begun here if it is new.
        ids: All samples of the pool.
        request: What decides about the picks besides the pool's state, as plain values.
        choose: Chooses samples, given the pool as it is.
        guess: Returns the model's own labels.
        more: Choose further samples all the same.

    Raises:
        PoolError: If someone else has taken a pick in the meantime; then nothing has changed.
    """
    begun = (folder.path / JOURNAL).exists()
    pool = folder.read_pool() if begun else Pool.create(ids)
    if not more and (last := _last(folder, pool)) is not None and last.request == request:
        return last, next_round(pool) - 1, True
    picks = choose(pool)
    folder.begin(ids)
    made = Round(picks, guess(picks.ids), request)
    return made, folder.commit(made), False


def _last(folder: LoopFolder, pool: Pool) -> Round | None:
    """Return the last round if nothing has happened since."""
    event = None
    for event in pool.events():  # noqa: B007 - the last one is wanted
        pass
    number = next_round(pool) - 1
    if event is None or event.verb is not Verb.QUERY or number < 0:
        return None
    last = read_round(folder.round_file(number))
    return last if event.id in last.picks.ids and event.who == last.picks.strategy else None

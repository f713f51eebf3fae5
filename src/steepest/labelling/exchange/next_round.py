"""The next round of a project: waiting samples count, and only the rest is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.labelling.exchange.folder import SERVER, LoopFolder, next_round
from steepest.labelling.exchange.rounds import Numbered, Round, part_of
from steepest.labelling.project.ledger import ProjectPool
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label
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


@dataclass(frozen=True)
class Taken:
    """The samples that wait for a label now.

    Attributes:
        number: The number of the last round.
        waiting: What earlier rounds asked for and no one has answered, oldest first.
        new: The round that was chosen now; None if enough was waiting.
    """

    number: int
    waiting: tuple[Numbered, ...]
    new: Round | None

    @property
    def waiting_count(self) -> int:
        """The number of samples of earlier rounds that still wait."""
        return sum(len(part.picks) for _, part in self.waiting)


def take_round(
    folder: LoopFolder,
    ids: Sequence[SampleId],
    request: dict[str, Any],
    k: int,
    choose: Callable[[Pool, int], Selection],
    guess: Callable[[Sequence[SampleId]], tuple[Label, ...]],
    *,
    more: bool = False,
) -> Taken:
    """Have k samples wait for a label: those that do already, and new ones for the rest.

    So a command that was cut short, or is repeated by a script, asks nobody twice and forgets
    nobody.

    Args:
        folder: The loop; begun here if it is new.
        ids: All samples of the pool.
        request: The settings that determine the picks besides the pool's state, as plain values.
        k: How many samples should wait.
        choose: Chooses that many samples, given the pool as it is.
        guess: Returns the model's own labels.
        more: Choose k new samples, whatever waits.

    Raises:
        InputError: If there is nothing to ask.
        PoolError: If someone else has chosen in the meantime; then nothing has changed.
    """
    begun = folder.begun
    pool: Pool = Pool.create(ids)
    waiting: tuple[Numbered, ...] = ()
    if begun:
        pool = shown = folder.read_pool()
        waiting = tuple(find_waiting(folder, shown))
    wanted = k if more else _still_wanted(pool, k)
    number = next_round(pool)
    if wanted == 0:
        return Taken(max(number - 1, 0), waiting, None)
    picks = choose(pool, wanted)
    if not begun:
        folder.begin(ids)
    made = Round(picks, guess(picks.ids), request)
    return Taken(folder.commit(made, number), waiting, made)


def _still_wanted(pool: Pool, k: int) -> int:
    counts = pool.counts()
    waiting = counts[State.QUERIED]
    if k < 0:
        raise InputError(f"-k {k}: ask for 1 or more, or for 0 to see what waits")
    if not waiting:
        if k == 0:
            raise InputError("-k 0: nothing waits for a label; ask for 1 or more")
        return k
    # The last few of a pool are taken as they are: what waits must be shown all the same.
    return max(min(k - waiting, counts[State.UNLABELLED]), 0)

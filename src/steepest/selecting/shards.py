"""Parts of a pool that are scored apart from each other, on several devices or machines.

A shard is made of whole batches of the pass that one machine would make, so that each batch holds
the same samples there and here: on machines of one kind the scores are the same to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.strategies import Needs, Scorer, Strategy

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """One of several parts of a pool.

    Attributes:
        number: The number of the part, from 1 on.
        count: Number of parts.
    """

    number: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a shard as users write it, such as ``"2/4"``.

        Raises:
            InputError: If it is none.
        """
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", str(text))
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise InputError(f"shard {text!r}: say which of how many, such as 1/4 or 4/4")
        return shard

    def take(self, rows: Sequence[T], batch_size: int) -> Sequence[T]:
        """Return this shard's rows: a run of whole batches, as many as of other shards or one more.

        Raises:
            InputError: If there are fewer batches than shards.
        """
        batches = -(-len(rows) // batch_size)
        if batches < self.count:
            raise InputError(
                f"{counted(len(rows), 'candidate')} in batches of {batch_size} cannot be shared by "
                f"{self.count} shards: make no more than {batches}, or take a smaller batch size"
            )
        start, stop = (batches * n // self.count for n in (self.number - 1, self.number))
        return rows[start * batch_size : stop * batch_size]


WHOLE = Shard()
"""All of a pool."""


def check_shardable(strategy: Strategy) -> None:
    """Refuse a strategy that scores a sample by more than the sample itself.

    Raises:
        InputError: Naming strategies that are scored sample by sample.
    """
    by_itself = isinstance(strategy, Scorer) and type(strategy).score_all is Scorer.score_all
    if not by_itself or Needs.LABELLED in strategy.needs_alone:
        raise InputError(
            f"{strategy.name} looks at more of the pool than one sample at a time, and has no "
            "shards: use 'entropy-gradnorm', 'margin' or 'entropy', or score the pool as a whole"
        )

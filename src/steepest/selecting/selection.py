"""The outcome of choosing, complete enough to be audited later; saved as CSV or JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.selecting.regime import Regime
from steepest.selecting.selection_file import read_table, write_table
from steepest.strategies.algorithms.verdict import Verdict

_SHOWN = 3
_LETTERS = 40


@dataclass(frozen=True, repr=False)
class Selection:
    """k chosen samples, best first.

    Attributes:
        ids: Ids [k].
        scores: Scores [k].
        strategy: Name of the strategy.
        options: Its options.
        seed: Seeded every draw.
        model: Fingerprint of the model that was asked.
        regime: The diagnosis, or None for strategies that do not look at the model.
        candidates: The number of samples that were scored.
        verdict: How the picks are spread over the predicted classes. None if not
            computed, or if the model does not predict one class of several.
    """

    ids: tuple[SampleId, ...]
    scores: tuple[float, ...]
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    model: str = ""
    regime: Regime | None = None
    candidates: int = 0
    verdict: Verdict | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        chosen = f"{len(self)} of {counted(self.candidates, 'sample')} by {self.strategy}"
        first = [
            _shorten(name) if math.isnan(score) else f"{_shorten(name)} ({score:.3g})"
            for name, score in zip(self.ids[:_SHOWN], self.scores, strict=False)
        ]
        more = ", …" if len(self) > _SHOWN else ""
        return f"<Selection: {chosen}: {', '.join(first)}{more}>"

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks [k]: 1 is the most wanted."""
        return tuple(range(1, len(self.ids) + 1))

    def save(self, path: Path | str) -> None:
        """Write CSV or JSON, whichever the file's name says.

        A table ``picks.csv`` has a row per sample, and ``picks.csv.json`` beside it the metadata of
        the selection.

        Raises:
            InputError: If it has another name, or cannot be written there.
        """
        write_table(Path(path), to_table(self))

    @classmethod
    def load(cls, path: Path | str) -> Selection:
        """Read a file written by ``save``.

        Raises:
            InputError: If the file is not such a file.
        """
        table = read_table(Path(path))
        try:
            return from_table(cls, table)
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is no selection saved by steepest ({error})") from error


def _shorten(name: SampleId) -> str:
    """Return an id as written in code; a long one is shortened to its end."""
    if isinstance(name, str) and len(name) > _LETTERS:
        return f"'…{repr(name[-_LETTERS:])[1:]}"
    return repr(name)

"""Features of the samples of a pool, by id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from steepest.core.seeds import SampleId
from steepest.errors import InputError


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """N samples as the rows of a table.

    Attributes:
        ids: Distinct [N].
        rows: Features [N, D], float32.
        backbone: The name of the net that computed them.
        identity: Hex digits of the net, its weights and its preprocessing.
        skipped: (id, reason) of each sample that is left out.
        computed: How many rows were computed again; the others were kept from before.
    """

    ids: tuple[SampleId, ...]
    rows: Tensor
    backbone: str = ""
    identity: str = ""
    skipped: tuple[tuple[SampleId, str], ...] = ()
    computed: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, sample: object) -> bool:
        return sample in self._places

    def positions(self, ids: Iterable[SampleId]) -> list[int]:
        """Return where some samples stand [M].

        Raises:
            InputError: Naming the first that is not there.
        """
        wanted = list(ids)
        for name in wanted:
            if name not in self._places:
                raise InputError(f"there are no features of sample {name!r}")
        return [self._places[name] for name in wanted]

    def of(self, ids: Iterable[SampleId]) -> Tensor:
        """Return the rows of some samples [M, D].

        Raises:
            InputError: Naming the first that is not there.
        """
        return self.rows[torch.tensor(self.positions(ids), dtype=torch.long)]

    @cached_property
    def _places(self) -> dict[SampleId, int]:
        return {name: row for row, name in enumerate(self.ids)}

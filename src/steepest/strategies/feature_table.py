"""Features of many samples by id, kept as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from steepest.core.seeds import SampleId


class FeatureTable(Mapping[SampleId, Tensor]):
    """The feature of each sample, by id [D].

    A dict would hold a tensor for each, which takes several times the memory of its numbers.

    Args:
        ids: Distinct ids [N].
        rows: Their features [N, D].
    """

    def __init__(self, ids: Sequence[SampleId], rows: Tensor) -> None:
        self._ids = ids
        self._rows = rows
        # Indices are their own places: a million of them need no dict.
        counted = isinstance(ids, range) and ids == range(len(ids))
        self._places = None if counted else {name: at for at, name in enumerate(ids)}

    def __getitem__(self, name: SampleId) -> Tensor:
        return self._rows[self._place(name)]

    def __iter__(self) -> Iterator[SampleId]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def take(self, ids: Sequence[SampleId]) -> Tensor:
        """Return the features of some samples [M, D].

        Raises:
            KeyError: If there is none of one of them.
        """
        return self._rows[[self._place(name) for name in ids]]

    def _place(self, name: SampleId) -> int:
        if self._places is not None:
            return self._places[name]
        if not isinstance(name, int) or not 0 <= name < len(self._ids):
            raise KeyError(name)
        return name

"""The labeller of simulations: it knows every label of a benchmark data set."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from steepest.core.seeds import SampleId
from steepest.data.sealed import SealedLabels
from steepest.errors import InputError
from steepest.labelling.labeller import Answers
from steepest.pool.values import Label, copy_label, plain_ids, plain_labels

MAP = "map"
"""Label that the pool records in place of a label map, which is too large for a journal."""


class OracleLabeller:
    """Answers at once and rightly from a data set's sealed labels.

    Args:
        sealed: Labels [N, ...], unsealed here for the purpose ``"oracle labeller"``. Label maps
            stay where they are: the answer is then that there is one.
        ids: The samples' ids [N] in the order of the labels; None means 0 … N - 1.

    Raises:
        InputError: If there is not one id for each label.
    """

    name = "oracle"

    def __init__(self, sealed: SealedLabels, ids: Sequence[SampleId] | None = None) -> None:
        known = plain_ids(range(len(sealed)) if ids is None else ids)
        if len(known) != len(sealed):
            raise InputError(f"{len(known)} ids but {len(sealed)} labels; give one id per label")
        self._labels = dict(zip(known, _answers(sealed), strict=True))

    def label(self, ids: Sequence[SampleId]) -> Answers:
        """Return the true label of every sample asked about."""
        asked = plain_ids(ids)
        unknown = next((i for i in asked if i not in self._labels), None)
        if unknown is not None:
            raise InputError(f"the oracle has no sample {unknown!r}; ask with the data set's ids")
        return Answers({i: copy_label(self._labels[i]) for i in asked})


def _answers(sealed: SealedLabels) -> list[Label]:
    """Return each sample's label as a pool keeps it."""
    if sealed.dense:
        return [MAP] * len(sealed)
    labels = sealed.unseal("oracle labeller")
    if labels.dtype == torch.bool:
        return [row.nonzero()[:, 0].tolist() for row in labels]
    return plain_labels(labels)

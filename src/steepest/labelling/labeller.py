"""The protocol of labellers; nothing has to be subclassed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from steepest.core.seeds import SampleId
from steepest.labelling.answers import Answers


@runtime_checkable
class Labeller(Protocol):
    """Someone or something that gives labels.

    Attributes:
        name: Who the pool remembers as the giver of the labels.
    """

    name: str

    def label(self, ids: Sequence[SampleId]) -> Answers:
        """Answer for some or all of the samples asked about, and for no others.

        Asking again gives the same answers, or more of them once they are there.

        Args:
            ids: Distinct ids [N].

        Raises:
            InputError: If an id is none that the labeller knows, or is there twice.
        """

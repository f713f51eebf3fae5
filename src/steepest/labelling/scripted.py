"""A labeller whose answers are written down beforehand, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.labelling.answers import Answers
from steepest.pool.values import Label, copy_label, plain_id, plain_ids, plain_label


class ScriptedLabeller:
    """Gives the answers of its script and leaves other samples unanswered.

    Args:
        answers: Labels by sample id.
        skip: The samples to skip.
        ids: All samples there are; asking about another is then an error. None knows no bounds.

    Raises:
        InputError: If a sample is both answered and skipped, or is none of ``ids``.
    """

    name = "script"

    def __init__(
        self,
        answers: Mapping[SampleId, Label],
        skip: Sequence[SampleId] = (),
        *,
        ids: Sequence[SampleId] | None = None,
    ) -> None:
        labels = {plain_id(sample): plain_label(label) for sample, label in answers.items()}
        self._script = Answers(labels, tuple(plain_ids(skip)))
        self._known = None if ids is None else frozenset(plain_ids(ids))
        self._check_known([*labels, *self._script.skipped])

    def label(self, ids: Sequence[SampleId]) -> Answers:
        """Return what the script says about the samples asked about."""
        asked = plain_ids(ids)
        self._check_known(asked)
        labels, skipped = self._script.labels, frozenset(self._script.skipped)
        return Answers(
            {i: copy_label(labels[i]) for i in asked if i in labels},
            tuple(i for i in asked if i in skipped),
        )

    def _check_known(self, ids: list[SampleId]) -> None:
        if self._known is None:
            return
        unknown = next((i for i in ids if i not in self._known), None)
        if unknown is not None:
            raise InputError(f"the script knows no sample {unknown!r}; ask with the pool's ids")

"""Labels of a loop are numbers or texts; where both are, one of them is a slip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.pool import Label, Pool
from steepest.pool.values import plain_label

Examples = dict[str, tuple[SampleId, Label]]
"""A labelled sample of each kind that there is: "text", or "number" for lists of numbers, too."""


class LabelKinds:
    """Knows of which kind the labels of a pool are, without looking at all of them each time.

    A pool that mixes them already, as earlier versions let it, takes both.

    Args:
        pool: The pool, with the labels that are there.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = _examples(zip(*pool.labelled(), strict=True))

    def check(self, labels: Mapping[SampleId, Label]) -> None:
        """Refuse new labels that mix numbers and texts, with each other or with those there.

        Raises:
            InputError: Naming one of each.
        """
        new = _examples(labels.items())
        if len(self._known | new) > 1:
            # Those that are known may have been corrected since.
            self._known = _examples(zip(*self._pool.labelled(), strict=True))
        if len(self._known) < 2 and len(found := self._known | new) > 1:
            (one, text), (other, number) = found["text"], found["number"]
            there = "; loop.pool.relabel corrects those that are there" if self._known else ""
            raise InputError(
                f"label {text!r} of sample {one!r} is a text and {number!r} of sample {other!r} "
                f"is not: give the names of all classes, or the numbers of all{there}"
            )
        self._known = self._known or new


def _examples(pairs: Iterable[tuple[SampleId, Label]]) -> Examples:
    found: Examples = {}
    for sample, label in pairs:
        plain = plain_label(label)
        found.setdefault("text" if isinstance(plain, str) else "number", (sample, plain))
    return found

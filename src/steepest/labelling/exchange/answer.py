"""What one person said about one sample, and where it stands written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.pool.values import Label

Map = npt.NDArray[np.uint8]
"""Class numbers [H, W], 255 where no class is known."""


@dataclass(frozen=True)
class Answer:
    """A label, or that nobody can give one.

    Attributes:
        id: The sample.
        label: Its label; None says that it is skipped.
        reason: Why it is skipped.
        who: Who said so; empty leaves that to whoever applies it.
        where: The place it was read from, such as ``"line 3"``.
        draw: Makes the label map that the label stands for.
    """

    id: SampleId
    label: Label | None
    reason: str = ""
    who: str = ""
    where: str = ""
    draw: Callable[[], Map] | None = field(default=None, compare=False)


def merge(answers: Iterable[Answer], source: str, say: Callable[[Label], str]) -> list[Answer]:
    """Return one answer per sample; equal ones count once.

    Args:
        answers: As they were read.
        source: What they were read from, for messages.
        say: Turns a label into words.

    Raises:
        InputError: If a sample has two different answers.
    """
    found: dict[SampleId, Answer] = {}
    for answer in answers:
        before = found.setdefault(answer.id, answer)
        if before.label != answer.label:
            one, other = (
                "skip" if a.label is None else repr(say(a.label)) for a in (before, answer)
            )
            raise InputError(
                f"{source}, {answer.where}: {other} for sample {answer.id!r}, but {one} at "
                f"{before.where}; decide on one"
            )
    return list(found.values())

"""A training that diverged, said in the words of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steepest.errors import NonFiniteError


@contextmanager
def divergence_named(lr: float, *, certain: bool) -> Iterator[None]:
    """Say which key to change where what a training made of a model is not finite.

    Args:
        lr: The configuration's ``training.lr``.
        certain: Whether nothing else can be the reason; a sample may be, where a model cannot
            score it though its logits are finite.

    Raises:
        NonFiniteError: In place of another one.
    """
    try:
        yield
    except NonFiniteError as error:
        remedy = f"lower training.lr, which is {lr:g}"
        # After the semicolon is the remedy for those who have no configuration.
        found = str(error).partition(";")[0]
        sure, unsure = f"the training diverged ({found}): ", f"{error}; if the training diverged, "
        raise NonFiniteError((sure if certain else unsure) + remedy) from error

"""A training that diverged, said in the words of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steepest.errors import NonFiniteError


@contextmanager
def divergence_named(lr: float) -> Iterator[None]:
    """Say which key to change where a training, or what it made of a model, is not finite.

    Args:
        lr: The configuration's ``training.lr``.

    Raises:
        NonFiniteError: In place of another one.
    """
    try:
        yield
    except NonFiniteError as error:
        # What follows is the remedy for those who have no configuration.
        found = str(error).partition(";")[0]
        raise NonFiniteError(
            f"the training diverged ({found}): lower training.lr, which is {lr:g}"
        ) from error


@contextmanager
def divergence_suspected(lr: float) -> Iterator[None]:
    """Name that key, too, where a model cannot score a sample though its logits are finite.

    Args:
        lr: The configuration's ``training.lr``.

    Raises:
        NonFiniteError: In place of another one.
    """
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}; if the training diverged, lower training.lr, which is {lr:g}"
        ) from error

"""The runs that artefacts are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steepest.core.registry import Registry


@dataclass(frozen=True)
class Need:
    """Runs that an artefact is made from.

    Attributes:
        setting: The experiment, as ``levels/*.toml`` name them, such as ``"cifar10"``.
        strategies: Whose runs, by the strategies' names.
        weights: Whether the weights of every cycle are needed, and not the records alone.
        seeds: How many seeds at most; None takes all of the level.
        init: Weights at the start of a training, where it is not the preset's.
        only_if_found: Whether to take such runs where they are found, and never to make them.
    """

    setting: str
    strategies: tuple[str, ...]
    weights: bool = False
    seeds: int | None = None
    init: str | None = None
    only_if_found: bool = False


NEEDS: Registry[Callable[[], tuple[Need, ...]]] = Registry("artefact", "steepest.paper.artefacts")
"""The runs that each artefact needs, by its name."""

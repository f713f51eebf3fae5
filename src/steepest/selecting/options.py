"""The options of a pass over a pool, with their help and checks.

Python's keywords are checked here, and the command line's flags and their help are made of the
fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from steepest.core.devices import choose_device
from steepest.core.parsing import whole_number
from steepest.core.progress import Progress
from steepest.core.seeds import SampleId, check_seed
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.modules.precision import Precision, check_precision
from steepest.pool.values import plain_id
from steepest.selecting.ray_engine import Engine, OnRay, as_engine
from steepest.selecting.shards import WHOLE, Shard
from steepest.strategies import Support, create
from steepest.strategies.base import Strategy
from steepest.tasks.base import TASKS, Losses, Task

BatchSize = int | Literal["auto"]

DEFAULT_STRATEGY = "steepest"
"""Default strategy, with a model of the user's or without one."""

DEFAULT_SCORE = "entropy-gradnorm"
"""Default strategy where each sample needs a score of its own: scores, shards and tables."""


def _help(text: str, metavar: str | None = None) -> dict[str, str | None]:
    return {"help": text, "metavar": metavar}


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Options for passes over a pool, described by each field's ``help`` metadata.

    Raises:
        InputError: If a value cannot be used.
    """

    labelled: Iterable[SampleId] | None = field(
        default=None, metadata=_help("ids to leave out because they carry a label already")
    )
    subset: int | None = field(
        default=None, metadata=_help("score a random subset of this size only", "N")
    )
    seed: int = field(default=0, metadata=_help("random seed", "N"))
    task: Task | str | None = field(
        default=None,
        metadata=_help(
            "the model's task: classification (default), segmentation or multi-label",
            "NAME",
        ),
    )
    batch_size: BatchSize = field(
        default="auto", metadata=_help("samples per batch; the result does not depend on it", "N")
    )
    precision: Precision = field(
        default="tf32", metadata=_help("precision of gradients, for strategies that take them")
    )
    device: torch.device | str | None = field(default=None, metadata=_help("the device"))
    progress: bool | Progress = field(default=True, metadata=_help("whether to show progress"))
    support: Support | None = field(
        default=None, metadata=_help("inputs of some strategies besides the model")
    )
    shard: str | None = field(
        default=None,
        metadata=_help(
            "score one of several parts of the candidates, such as 2/4, into an .npz file; nothing "
            "is chosen yet",
            "I/N",
        ),
    )
    engine: Engine = field(
        default="here",
        metadata=_help("where passes over the model run: here, or ray for actors on a Ray cluster"),
    )
    class_names: tuple[str, ...] = field(
        default=(), metadata=_help("the names of the classes in the model's order")
    )

    def __post_init__(self) -> None:
        check_support(self.support)
        check_task(self.task, by_name=True)
        check_precision(self.precision)
        plain = {
            "labelled": labelled_ids(self.labelled, self.support),
            "subset": check_subset(self.subset),
            "seed": check_seed(self.seed),
            "batch_size": check_batch_size(self.batch_size),
            "class_names": check_class_names(self.class_names),
        }
        if self.device is not None:
            choose_device(self.device)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        if self.part.count > 1 and self.on_ray is not None:
            raise InputError("shard divides a pool by hand, and engine 'ray' by itself: leave one")

    @property
    def on_ray(self) -> OnRay | None:
        """The settings of the Ray cluster; None if passes run in this process."""
        return as_engine(self.engine)

    @property
    def part(self) -> Shard:
        """The part of the pool to process."""
        return WHOLE if self.shard is None else Shard.parse(self.shard)


def labelled_ids(
    labelled: Iterable[SampleId] | None, support: Support | None
) -> set[SampleId] | None:
    """Return which samples of a pool are labelled, as far as that is known.

    Args:
        labelled: Their ids.
        support: Its targets belong to labelled samples too.

    Raises:
        InputError: If a sample has a target but is not labelled: the label of a candidate would
            be used.
    """
    check_support(support)
    known = support is not None and support.labelled is None and bool(support.targets)
    targets = {plain_id(i) for i in support.targets} if support is not None and known else set()
    if labelled is None:
        return targets or None
    taken = check_labelled(labelled)
    if unlabelled := targets - taken:
        raise InputError(
            f"Support.targets holds a target of sample {next(iter(unlabelled))!r}, which labelled= "
            "does not name: give targets of labelled samples only"
        )
    return taken


def check_subset(subset: Any) -> int | None:  # noqa: ANN401
    """Return the size of a random subset as a plain number; None for all samples.

    Raises:
        InputError: If it is no number of samples.
    """
    if subset is None:
        return None
    number = whole_number(subset)
    if number is None or number < 1:
        raise InputError(f"subset must be a whole number of at least 1, not {subset!r}")
    return number


def check_batch_size(size: Any) -> BatchSize:  # noqa: ANN401
    """Return a batch size as ``"auto"`` or a plain number.

    Raises:
        InputError: If it is neither.
    """
    if isinstance(size, str) and size == "auto":
        return "auto"
    number = whole_number(size)
    if number is None or number < 1:
        raise InputError(f"batch_size must be 'auto' or at least 1, not {size!r}")
    return number


def check_task(task: object, *, by_name: bool = False) -> None:
    """Raise if it is not a task.

    Args:
        task: The value that was given as the task.
        by_name: Whether it may be the name of one.

    Raises:
        UnknownNameError: If no task has that name.
        InputError: Saying how one is given.
    """
    if by_name and isinstance(task, str):
        TASKS.get(task)
        return
    if task is not None and not isinstance(task, Losses):
        raise InputError(
            f"task must be a task such as steepest.tasks.MultiLabel(classes=3), not {task!r}"
        )


def check_support(support: object) -> None:
    """Raise if it is not a ``Support``.

    Raises:
        InputError: Saying how it is given.
    """
    if support is not None and not isinstance(support, Support):
        raise InputError(
            f"support must be a steepest.strategies.Support(…), not a {type(support).__name__}"
        )


def check_labelled(labelled: Iterable[SampleId]) -> set[SampleId]:
    """Return the ids of labelled samples as plain values.

    Raises:
        InputError: If they are no ids.
    """
    # A lone text would pass for its letters.
    if isinstance(labelled, (str, bytes)) or not isinstance(labelled, Iterable):
        raise InputError(f"labelled is a {type(labelled).__name__}: give a list of ids")
    try:
        return {plain_id(i) for i in labelled}
    except TypeError:  # An array without a dimension says that it can be iterated over.
        raise InputError("labelled is a single number: give a list of ids") from None


def check_class_names(names: object) -> tuple[str, ...]:
    """Return names of classes as a tuple.

    Raises:
        InputError: If they are none.
    """
    # A lone text would pass for its letters.
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"class_names is a {type(names).__name__}: give a list of names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"class_names holds {name!r}: give a text for each class")
    return tuple(names)


def as_strategy(strategy: str | Strategy, options: Mapping[str, Any] | None) -> Strategy:
    """Return a strategy given by name and options, or as an object.

    Raises:
        InputError: If it is neither, or options come with a strategy that is made already.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options are a {type(options).__name__}: give them by name, as a dict")
    if isinstance(strategy, str):
        return create(strategy, options)
    if not isinstance(strategy, Strategy):
        raise InputError(f"strategy must be a name or a Strategy, not {strategy!r}")
    if options:
        raise InputError("options belong to a strategy given by name; set them on the strategy")
    return strategy


def check_k(k: Any, unlabelled: int, subset: int | None) -> int:  # noqa: ANN401
    """Return k as a plain number, if that many samples can be chosen.

    Raises:
        InputError: Says the largest k that can.
    """
    subset = check_subset(subset)
    number = whole_number(k)
    if number is None or number < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}")
    if unlabelled < 1:
        raise InputError(
            f"k = {k}, but no sample is left to choose: all are labelled, waiting or skipped"
        )
    if number > unlabelled:
        raise InputError(
            f"k = {k}, but only {counted(unlabelled, 'sample')} can be chosen: lower k"
        )
    if subset is not None and number > subset:
        raise InputError(f"k = {k} is more than the subset of {subset} that would be scored")
    return number

"""Builds the model and the task that the command line names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import nn

from steepest.cli.arguments import add_flags, pairs, warn_of_former
from steepest.errors import InputError, UnknownNameError
from steepest.selecting.options import SelectionOptions
from steepest.tasks import Task


def add_model_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of the model and its task."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="package.module:name of your model or of a function that returns it, or a built-in "
        "model (default: features of a pretrained net)",
    )
    parser.add_argument(
        "--num-classes",
        dest="classes",
        type=int,
        metavar="N",
        help="number of classes, if the factory takes it",
    )
    parser.add_argument(
        "--model-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option that the model was built with, such as stem=s1; may be repeated",
    )
    add_flags(parser, SelectionOptions, ["task"])
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="trained weights: .safetensors, .pt, .pth, .pth.tar or .ckpt; not needed if your "
        "model has them",
    )


class ClassNames(argparse.Action):
    """Stores names of classes; a bare number is the former ``--classes 10``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - as argparse has it
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Store the names, or the number of classes."""
        if values.isdecimal():
            warn_of_former(f"--classes {values}", f"--num-classes {values}")
            namespace.classes = int(values)
        else:
            namespace.class_names = values


def check_weights(arguments: argparse.Namespace) -> None:
    """Refuse a built-in model without weights.

    Raises:
        InputError: Says that they are needed.
    """
    if ":" in arguments.model:
        return
    from steepest.models import MODELS

    try:
        MODELS.get(arguments.model)
    except UnknownNameError as error:
        raise InputError(f"{error}; one of your own is package.module:factory") from error
    if arguments.weights is None:
        raise InputError(
            f"--model {arguments.model}: a built-in model needs the --weights of your training; "
            "fresh ones know nothing"
        )


def make_model(arguments: argparse.Namespace) -> nn.Module:
    """Return the model that was named, with the weights that it is made with.

    Raises:
        InputError: If it cannot be made from the arguments.
    """
    from steepest.models import build
    from steepest.models.factory import call_factory, find_made

    options, channels = pairs(arguments.model_option), arguments.channels
    made = find_made(arguments.model) if ":" in arguments.model else None
    if made is not None:
        if options:
            raise InputError(
                f"--model {arguments.model} is a model that is made already: it takes no "
                "--model-option"
            )
        return made
    if arguments.classes is not None:
        return build(arguments.model, arguments.classes, channels, arguments.seed, options)
    if ":" not in arguments.model:
        raise InputError(f"--model {arguments.model}: a built-in model needs --num-classes")
    return call_factory(arguments.model, {"channels": channels}, options)


def make_task(arguments: argparse.Namespace) -> Task | str | None:
    """Return the task that was named, if one was; its name where the model counts the classes."""
    if arguments.task is None or arguments.classes is None:
        name: str | None = arguments.task
        return name
    from steepest.core.tables import from_table
    from steepest.tasks import TASKS

    kind = TASKS.get(arguments.task)
    return from_table(kind, {"classes": arguments.classes}, f"task {arguments.task!r}")

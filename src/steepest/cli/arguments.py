"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin, get_type_hints

from steepest.errors import InputError

if TYPE_CHECKING:
    from steepest.experiment.config import Config


_SHARED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "--address": {
            "metavar": "HOST:PORT",
            "help": "address of the Ray cluster (default: RAY_ADDRESS, or else this machine alone)",
        },
        "--device": {
            "default": "auto",
            "metavar": "NAME",
            "help": "device: cpu, cuda, cuda:1 … (default: auto, a GPU if there is one)",
        },
        "--engine": {
            "choices": ("here", "ray"),
            "default": "here",
            "help": "run here, or in processes on this machine or a Ray cluster, with the same "
            "result (default: %(default)s)",
        },
        "--jobs": {
            "type": int,
            "metavar": "N",
            "help": "runs at a time (default: one per core; one on a GPU)",
        },
        "--member-jobs": {
            "type": int,
            "metavar": "N",
            "help": "members of a committee (qbc) that a run trains at a time, with the same "
            "results (default: as many as fit on a GPU; one on a CPU or beside other runs)",
        },
        "--metric": {
            "metavar": "NAME",
            "help": "metric to compare, such as balanced_accuracy (default: that of the task)",
        },
        "--minutes": {
            "type": float,
            "metavar": "M",
            "help": "start no cycle that would end later than this; the same command resumes",
        },
        "--out": {
            "type": Path,
            "metavar": "DIR",
            "help": "folder for results; the same folder resumes",
        },
        "--quiet": {"action": "store_true", "help": "show no progress"},
        "--seed": {
            "type": int,
            "default": 0,
            "metavar": "N",
            "help": "random seed (default: %(default)s)",
        },
        "--threads": {"type": int, "metavar": "N", "help": "CPU threads (default: torch's)"},
        "--track": {
            "choices": ("mlflow", "wandb", "tensorboard"),
            "help": "tracker to send metrics to after each cycle: mlflow at MLFLOW_TRACKING_URI, "
            "wandb, or tensorboard in a folder beside the results",
        },
    }
)
"""Options of several commands."""


def add_shared(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:  # noqa: ANN401
    """Add options that several commands share.

    Args:
        parser: A command's parser, or a group of it.
        names: The options.
        changes: Changes for this command, such as the default.
    """
    for name in names:
        parser.add_argument(name, **{**_SHARED[name], **changes})


def add_flags(parser: argparse._ActionsContainer, options: type[Any], names: Iterable[str]) -> None:
    """Add a flag for each of some fields of a dataclass, with the field's default and help."""
    hints = get_type_hints(options)
    fields = {field.name: field for field in dataclasses.fields(options)}
    for name in names:
        field, hint = fields[name], hints[name]
        choices = get_args(hint) if get_origin(hint) is Literal else None
        known = "" if field.default is None else " (default: %(default)s)"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=_type_of(hint),
            choices=choices,
            default=field.default,
            metavar=field.metadata.get("metavar"),
            help=field.metadata["help"] + known,
        )


def _type_of(hint: Any) -> Callable[[str], Any]:  # noqa: ANN401
    """Return a reader for values of a type: a number, one of some words, or a text."""
    kinds = get_args(hint)
    if hint is not int and int not in kinds:
        return str
    words = {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}

    def number(text: str) -> int | str:
        return text if text in words else int(text)

    return number


def add_former(parser: argparse._ActionsContainer, name: str, action: argparse.Action) -> None:
    """Keep a flag's former name, which the help no longer shows; its use prints the present one."""
    parser.add_argument(name, action=_Former, present=action)


class _Former(argparse.Action):
    """Prints the present name of a flag, and passes its values on."""

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,  # noqa: ARG002 - that of the present name
        present: argparse.Action,
    ) -> None:
        super().__init__(
            option_strings,
            present.dest,
            nargs=present.nargs,
            default=argparse.SUPPRESS,
            type=cast("Callable[[str], Any] | None", present.type),
            choices=present.choices,
            help=argparse.SUPPRESS,
            metavar=present.metavar,
        )
        self.present = present

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - as argparse has it
        option_string: str | None = None,
    ) -> None:
        """Print the present name, and act as it would."""
        warn_of_former(str(option_string), self.present.option_strings[0])
        self.present(parser, namespace, values, option_string)


def warn_of_former(former: str, present: str) -> None:
    """Print that a flag has another name now."""
    print(f"steepest: warning: {former} is deprecated: it is {present} now", file=sys.stderr)


def add_config(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the configuration and the settings that replace parts of it."""
    from steepest.experiment.config import presets

    parser.add_argument(
        "config",
        nargs=None if required else "?",
        metavar="CONFIG_OR_PRESET",
        help=f"a TOML file, or a preset: {', '.join(presets())}",
    )
    parser.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace a setting, such as training.epochs=5; may be repeated",
    )
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument(
        "--fast",
        dest="variant",
        action="store_const",
        const="fast",
        help="use the configuration's quick recipe, for a first look",
    )
    variant.add_argument(
        "--smoke",
        dest="variant",
        action="store_const",
        const="smoke",
        help="use the configuration's smallest size, to check that everything runs",
    )


def config_of(arguments: argparse.Namespace) -> Config:
    """Read the configuration that the arguments name, changed as they say."""
    from steepest.experiment.config import load_config

    return load_config(arguments.config, arguments.changes, arguments.variant)


def deadline_of(arguments: argparse.Namespace) -> float | None:
    """Return when to stop, in the seconds of ``time.time()``.

    Raises:
        InputError: If the minutes are no number of at least 0.
    """
    minutes: float | None = arguments.minutes
    if minutes is None:
        return None
    if not math.isfinite(minutes) or minutes < 0:
        raise InputError(f"--minutes {minutes}: give a number of at least 0")
    return time.time() + 60 * minutes


def seeds_of(text: str) -> list[int]:
    """Read a number of seeds, counted from 0, or a list of them.

    Raises:
        InputError: If it is neither.
    """
    try:
        listed = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        listed = []
    seeds = listed if "," in text else [seed for count in listed for seed in range(count)]
    if not seeds or min(seeds) < 0:
        raise InputError(
            f"--seeds {text!r}: give a number of at least 1, or a list such as 3,4,7, none negative"
        )
    return seeds


def names_of(text: str, option: str) -> tuple[str, ...]:
    """Read names separated by commas; duplicates count once.

    Raises:
        InputError: Naming the option, if there is none.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"{option} {text!r}: give names separated by commas")
    return names


def pairs(options: list[str]) -> dict[str, object]:
    """Read repeated ``NAME=VALUE`` options; values are TOML or bare words.

    A name with dots leads into tables: ``a.b=1`` is ``{"a": {"b": 1}}``.

    Raises:
        ConfigError: If one is not of that form.
    """
    from steepest.experiment.config import change_setting

    found: dict[str, object] = {}
    for option in options:
        change_setting(found, option)
    return found

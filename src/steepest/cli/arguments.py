"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from steepest.errors import InputError

if TYPE_CHECKING:
    from steepest.experiment.config import Config


def add_flags(parser: argparse.ArgumentParser, options: type[Any], names: Iterable[str]) -> None:
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
    """Return what reads a value of a type: a number, one of some words, or a text."""
    kinds = get_args(hint)
    if hint is not int and int not in kinds:
        return str
    words = {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}

    def number(text: str) -> int | str:
        return text if text in words else int(text)

    return number


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
        help="the configuration's quick recipe, for a first look",
    )
    variant.add_argument(
        "--smoke",
        dest="variant",
        action="store_const",
        const="smoke",
        help="the configuration's smallest size: does the whole path run?",
    )


def config_of(arguments: argparse.Namespace) -> Config:
    """Read the configuration that the arguments name, changed as they say."""
    from steepest.experiment.config import load_config

    return load_config(arguments.config, arguments.changes, arguments.variant)


def add_out(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the folder that results go to."""
    parser.add_argument(
        "--out",
        type=Path,
        required=default is None,
        default=None if default is None else Path(default),
        metavar="DIR",
        help="the folder for results; the same folder resumes"
        + ("" if default is None else " (default: %(default)s)"),
    )


def add_metric(parser: argparse.ArgumentParser) -> None:
    """Add what strategies are compared by."""
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="what is compared, such as balanced_accuracy; by default the task's headline",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add how many runs are made at a time."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs side by side; default: one per core, on a GPU one",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add where the work is done."""
    parser.add_argument(
        "--engine",
        choices=("here", "ray"),
        default="here",
        help="where the work is done: here, or ray for processes on this machine or a Ray cluster, "
        "with the same result (default: %(default)s)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster (default: RAY_ADDRESS if that is set, or else this machine alone)",
    )


def add_member_jobs(parser: argparse.ArgumentParser) -> None:
    """Add how many members of a committee are trained at a time."""
    parser.add_argument(
        "--member-jobs",
        type=int,
        metavar="N",
        help="members of a committee (qbc) that a run trains side by side; the results are the "
        "same; default: as many as a GPU has room for, one on a CPU or beside other runs",
    )


def add_minutes(parser: argparse.ArgumentParser) -> None:
    """Add the time after which to stop at a cycle boundary."""
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="begin no cycle that would end later than this; the same command goes on from there",
    )


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
    """Read names separated by commas; what is said twice counts once.

    Raises:
        InputError: Naming the option, if there is none.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"{option} {text!r}: give names separated by commas")
    return names


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add where to compute."""
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="where to compute: cpu, cuda, cuda:1 … (default: auto, a GPU if there is one)",
    )


def add_seed(parser: argparse.ArgumentParser, default: int | None = 0) -> None:
    """Add the seed; without a default it is left to the configuration."""
    told = "the configuration's" if default is None else default
    parser.add_argument(
        "--seed",
        type=int,
        default=default,
        metavar="N",
        help=f"decides every draw (default: {told})",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the switch that silences progress."""
    parser.add_argument("--quiet", action="store_true", help="show no progress")


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


def add_track(parser: argparse.ArgumentParser) -> None:
    """Add ``--track``."""
    parser.add_argument(
        "--track",
        choices=("mlflow", "wandb", "tensorboard"),
        help="send metrics there after each cycle; mlflow goes to MLFLOW_TRACKING_URI, tensorboard "
        "to a folder beside the results",
    )

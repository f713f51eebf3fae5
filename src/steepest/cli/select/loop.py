"""Chooses a round of a labelling loop and writes it to the loop's folder."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from steepest.cli.select.pool import is_own
from steepest.core.files import write_atomically
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.exchange.array_identity import identify_array
from steepest.labelling.exchange.export import CONFIG, check_empty, check_taken_in, export_text
from steepest.labelling.exchange.folder import LoopFolder, Settings, read_names, read_settings
from steepest.labelling.exchange.guesses import guess
from steepest.labelling.exchange.next_round import Taken, take_round
from steepest.labelling.exchange.rounds import Numbered, put_together
from steepest.labelling.exchange.vocabulary import CLASSIFICATION, Vocabulary
from steepest.pool import Pool
from steepest.selecting import Selection
from steepest.selecting.samples import PoolLike, as_samples

Choose = Callable[[Pool, int], Selection]
"""Chooses so many samples, given the pool of a loop."""


def add_loop_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of a labelling loop."""
    parser.add_argument(
        "--run",
        type=Path,
        metavar="DIR",
        help="folder of the labelling loop, made if it does not exist: labelled and skipped "
        "samples are left out; those that still wait for a label are written first and count "
        "towards K, so that -k 0 writes them alone",
    )
    parser.add_argument(
        "--more",
        action="store_true",
        help="choose K new samples however many wait, and write those alone",
    )


def loop_settings(arguments: argparse.Namespace) -> Settings | None:
    """Return the settings of the loop that is meant, or None if none is.

    Settings known to the loop need not be repeated: they are put into the arguments.

    Raises:
        InputError: If the classes are not known, or labels would be written over.
    """
    if arguments.run is None:
        if arguments.more:
            raise InputError("--more is for a labelling loop; add --run")
        if arguments.export == "label-studio":
            raise InputError("--format label-studio needs --run, which knows the classes")
        if arguments.out is not None:
            check_empty(arguments.export, arguments.out)
        return None
    if arguments.export == "label-studio" and is_own(arguments.pool):
        raise InputError(
            f"--format label-studio shows images of a folder or an array, and --pool "
            f"{arguments.pool} is code: take --format csv or jsonl"
        )
    known = read_settings(arguments.run)
    names = _names(arguments, known)
    _count_classes(arguments, names)
    task = arguments.task or (CLASSIFICATION if known is None else known.task)
    if task != CLASSIFICATION:
        arguments.task = task
    Vocabulary(task, names)
    return Settings(task, names, _place_of(arguments.pool))


def _place_of(pool: Path) -> str:
    return str(pool if is_own(pool) else pool.resolve())


def class_names(arguments: argparse.Namespace, settings: Settings | None) -> tuple[str, ...]:
    """Return the class names in the model's order, if known.

    Raises:
        InputError: If they cannot be used.
    """
    if settings is not None:
        return settings.classes
    if arguments.class_names is None:
        return ()
    names = read_names(arguments.class_names)
    _count_classes(arguments, names)
    return Vocabulary(CLASSIFICATION, names).names


def loop_pool(arguments: argparse.Namespace, settings: Settings) -> Pool | None:
    """Return a snapshot of a loop's pool; None if the loop has not begun."""
    folder = LoopFolder(arguments.run, settings)
    return folder.read_pool() if folder.begun else None


def choose_round(
    arguments: argparse.Namespace,
    settings: Settings,
    model: nn.Module,
    pool: PoolLike,
    choose: Choose,
) -> Selection | None:
    """Choose the next round of a loop, record it, and write the waiting samples.

    Returns:
        The new picks; None if enough samples wait.
    """
    samples = as_samples(pool)
    words = Vocabulary(settings.task, settings.classes)
    # A model that does not fit its classes shows now, and not after hours of scoring.
    guess(model, samples, samples.ids[:1], words)
    ids = list(samples.ids)
    if isinstance(pool, np.ndarray):
        settings = replace(settings, array=identify_array(pool))
    folder = LoopFolder(arguments.run, settings)
    with folder.hold() if folder.begun else nullcontext():
        folder = LoopFolder.find(arguments.run, ids, settings)
        present = Pool.create(ids)
        if folder.begun:
            folder.note_array(settings.array)
            present = folder.read_pool()
        if arguments.out is not None:
            check_taken_in(arguments.export, arguments.out, folder, present)
        taken = take_round(
            folder,
            ids,
            _request(arguments, model),
            arguments.k,
            choose,
            partial(guess, model, samples, words=words, maps=folder.maps),
            more=arguments.more,
        )
        return _show(arguments, taken, folder)


def write_out(
    arguments: argparse.Namespace, made: Sequence[Numbered], folder: LoopFolder | None = None
) -> None:
    """Write picks to the requested file and format."""
    out = arguments.out
    if out is None:
        return
    if arguments.export is None:
        put_together(made).save(out)
    elif arguments.export != "label-studio":
        write_atomically(out, export_text(arguments.export, made))
    elif folder is not None:
        from steepest.labelling.label_studio.tasks import make_config, tasks_text

        write_atomically(out, tasks_text(made, folder))
        write_atomically(folder.path / CONFIG, make_config(folder.vocabulary) + "\n")


def say_chosen(arguments: argparse.Namespace, picks: Selection) -> None:
    """Say how many samples were chosen, and where they are."""
    chosen = f"{len(picks)} of {counted(picks.candidates, 'sample')} chosen by {picks.strategy}"
    print(chosen if arguments.out is None else f"{chosen}: {arguments.out}")


def _show(arguments: argparse.Namespace, taken: Taken, folder: LoopFolder) -> Selection | None:
    """Write the waiting samples, report how many are old, and return the new ones."""
    earlier, new = taken.waiting_count, taken.new
    made = [] if arguments.more else [*taken.waiting]
    if new is not None:
        made.append((taken.number, new))
    write_out(arguments, made, folder)
    all_waiting = earlier + (0 if new is None else len(new.picks))
    waiting = counted(all_waiting, "sample waits for a label", "samples wait for a label")
    if new is None:
        place = "" if arguments.out is None else f": {arguments.out}"
        print(f"nothing new was chosen, since enough samples wait (--more chooses others){place}")
    else:
        say_chosen(arguments, new.picks)
        if earlier:
            waiting += f", {earlier} of them from earlier rounds"
        if earlier and arguments.more and arguments.out is not None:
            waiting += f" and not in {arguments.out}: without --more they are"
    if arguments.export == "label-studio":
        print(f"labelling configuration for the project: {folder.path / CONFIG}")
    print(f"round {taken.number} of {arguments.run}: {waiting}")
    return None if new is None else new.picks


def _count_classes(arguments: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Put the number of classes into the arguments."""
    if arguments.classes not in (None, len(names)):
        raise InputError(
            f"--num-classes {arguments.classes}, but there are {len(names)} class names"
        )
    arguments.classes = len(names)


def _names(arguments: argparse.Namespace, known: Settings | None) -> tuple[str, ...]:
    if arguments.class_names is not None:
        return read_names(arguments.class_names)
    if known is not None:
        return known.classes
    if arguments.classes is None:
        raise InputError("--run needs the classes: --classes cat,dog, or --num-classes 10")
    return tuple(map(str, range(arguments.classes)))


def _request(arguments: argparse.Namespace, model: nn.Module) -> dict[str, Any]:
    """Return everything that affects the picks besides the pool's state."""
    from steepest.modules.fingerprint import fingerprint

    about_strategy = ("k", "strategy", "option", "subset", "seed", "task", "precision")
    about_images = ("size", "channels", "mean", "std")
    asked = {name: getattr(arguments, name) for name in (*about_strategy, *about_images)}
    others = [*arguments.member, *([arguments.previous] if arguments.previous else [])]
    if others:
        asked["other models"] = [_digest(path) for path in others]
    return {**asked, "left_out": _digest(arguments.labelled), "model": fingerprint(model)}


def _digest(path: Path | None) -> str | None:
    return None if path is None else hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()

"""What `steepest select` does with the folder of a labelling loop."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from steepest.errors import InputError
from steepest.files import write_atomically
from steepest.labelling.exchange.export import CONFIG, check_taken_in, export_text
from steepest.labelling.exchange.folder import LoopFolder, Settings, read_names, read_settings
from steepest.labelling.exchange.guesses import guess
from steepest.labelling.exchange.next_round import take_round
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.exchange.vocabulary import CLASSIFICATION, Vocabulary
from steepest.pool import Pool
from steepest.scoring import Selection
from steepest.scoring.samples import PoolLike, as_samples

Choose = Callable[[Pool], Selection]
"""Chooses samples, given the pool of a loop."""


def loop_settings(arguments: argparse.Namespace) -> Settings | None:
    """Return the settings of the loop that is meant, or None if none is.

    What the loop knows already need not be said again: it is put into the arguments.

    Raises:
        InputError: If the classes are not known.
    """
    if arguments.run is None:
        for name in ("more", "class_names"):
            if getattr(arguments, name):
                raise InputError(f"--{name.replace('_', '-')} is for a labelling loop; add --run")
        if arguments.export == "label-studio":
            raise InputError("--export label-studio needs --run, which knows the classes")
        return None
    known = read_settings(arguments.run)
    names = _names(arguments, known)
    if arguments.classes not in (None, len(names)):
        raise InputError(f"--classes {arguments.classes}, but there are {len(names)} class names")
    arguments.classes = len(names)
    task = arguments.task or (CLASSIFICATION if known is None else known.task)
    if task != CLASSIFICATION:
        arguments.task = task
    Vocabulary(task, names)
    return Settings(task, names, str(arguments.pool.resolve()))


def choose_round(
    arguments: argparse.Namespace,
    settings: Settings,
    model: nn.Module,
    pool: PoolLike,
    choose: Choose,
) -> Selection:
    """Choose the next round of a loop, note it there, and write it out."""
    samples = as_samples(pool)
    words = Vocabulary(settings.task, settings.classes)
    # A model that does not fit its classes shows now, and not after hours of scoring.
    guess(model, samples, samples.ids[:1], words)
    ids = list(samples.ids)
    folder = LoopFolder.find(arguments.run, ids, settings)
    if arguments.export is not None and arguments.out is not None:
        known = read_settings(arguments.run) is not None
        present = folder.read_pool() if known else Pool.create(ids)
        check_taken_in(arguments.export, arguments.out, folder, present)
    made, number, again = take_round(
        folder,
        ids,
        _request(arguments, model),
        choose,
        partial(guess, model, samples, words=words, maps=folder.maps),
        more=arguments.more,
    )
    if again:
        print("nothing was labelled since: the same picks again (--more chooses others)")
    write_out(arguments, made, number, folder)
    waiting = f"{len(made.picks)} samples wait for a label"
    print(f"round {number} of {arguments.run}: {waiting}")
    return made.picks


def write_out(
    arguments: argparse.Namespace, made: Round, number: int, folder: LoopFolder | None
) -> None:
    """Write the picks where, and as what, they are wanted."""
    picks, out = made.picks, arguments.out
    chosen = f"{len(picks)} of {picks.candidates} samples chosen by {picks.strategy}"
    if out is None:
        print(chosen)
        return
    if arguments.export is None:
        picks.save(out)
    else:
        write_atomically(out, export_text(arguments.export, made, number, folder))
    print(f"{chosen}: {out}")
    if arguments.export == "label-studio" and folder is not None:
        from steepest.labelling.label_studio.config import make_config

        write_atomically(folder.path / CONFIG, make_config(folder.vocabulary) + "\n")
        print(f"labelling configuration for the project: {folder.path / CONFIG}")


def _names(arguments: argparse.Namespace, known: Settings | None) -> tuple[str, ...]:
    if arguments.class_names is not None:
        return read_names(arguments.class_names)
    if known is not None:
        return known.classes
    if arguments.classes is None:
        raise InputError("--run needs the classes: --class-names cat,dog, or --classes 10")
    return tuple(map(str, range(arguments.classes)))


def _request(arguments: argparse.Namespace, model: nn.Module) -> dict[str, Any]:
    """Return what decides about the picks besides the pool's state."""
    from steepest.models.fingerprint import fingerprint

    names = ("k", "strategy", "option", "subset", "seed", "size", "channels", "mean", "std", "task")
    asked = {name: getattr(arguments, name) for name in names}
    others = [*arguments.member, *([arguments.previous] if arguments.previous else [])]
    if others:
        asked["other models"] = [_digest(path) for path in others]
    return {**asked, "left_out": _digest(arguments.labelled), "model": fingerprint(model)}


def _digest(path: Path | None) -> str | None:
    return None if path is None else hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()

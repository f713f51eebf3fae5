"""Selection without a model of the user's own: features, a linear probe, picks and a page."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from steepest.cli.arguments import pairs
from steepest.cli.select.loop import say_chosen, write_out
from steepest.cli.select.pool import is_own
from steepest.cli.terminal import INTERRUPTED
from steepest.core.files import check_writable, write_atomically
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.exchange.export import SUFFIXES as EXPORTED
from steepest.labelling.exchange.export import check_empty, check_export
from steepest.labelling.exchange.rounds import Round
from steepest.selecting.selection_file import SUFFIXES, sidecar_of

if TYPE_CHECKING:
    from steepest.data.label_table import LabelTable
    from steepest.features import FeatureTable
    from steepest.selecting.pretrained import PretrainedChoice

_OUT = "picks"
_FOR_MODELS = (
    "classes", "weights", "size", "mean", "std", "run", "shard", "scores", "previous", "more",
    "model_option", "member", "task",
)  # fmt: skip
"""Arguments that have a meaning with a model alone."""


def add_pretrained_arguments(group: argparse._ActionsContainer) -> None:
    """Add the arguments of choosing without a model."""
    group.add_argument(
        "--labels",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labels: .csv, .tsv, .json or .jsonl with a sample and its class in each row, with or "
        "without a heading; may be repeated",
    )
    group.add_argument(
        "--backbone",
        metavar="NAME",
        help="pretrained net that computes features (default: efficientnet-lite0)",
    )
    group.add_argument(
        "--text-column",
        metavar="NAME",
        help="column of the texts in a table or JSON lines (default: text, sentence or similar)",
    )
    group.add_argument(
        "--label-column",
        metavar="NAME",
        help="column of the classes in a table or JSON lines of which some rows are labelled",
    )
    group.add_argument(
        "--sheet",
        type=Path,
        metavar="FILE",
        help="web page that shows the picks (default: beside --out, as .html)",
    )
    group.add_argument(
        "--features",
        type=Path,
        metavar="DIR",
        help="folder for computed features (default: .steepest/features in the pool)",
    )


def check_model_given(arguments: argparse.Namespace) -> None:
    """Raise on options for choosing without a model.

    Raises:
        InputError: Naming the argument.
    """
    given = ("labels", "backbone", "sheet", "features", "text_column", "label_column")
    if name := next((name for name in given if getattr(arguments, name)), None):
        remedy = "; --labelled takes labelled samples" if name == "labels" else ""
        flag = name.replace("_", "-")
        raise InputError(f"--{flag} is for choosing without --model{remedy}")


def select_without_model(arguments: argparse.Namespace) -> int:
    """Choose by the features of a pretrained net, and show the picks."""
    for name in _FOR_MODELS:
        if getattr(arguments, name):
            raise InputError(f"--{name.replace('_', '-')} needs a model: name it by --model")
    if is_own(arguments.pool):
        raise InputError(f"--pool {arguments.pool} is code, which needs a --model")
    out, sheet = _places(arguments)
    pool = _pool(arguments)
    try:
        choice = _choose(arguments, pool)
    except KeyboardInterrupt:
        print(
            "steepest: stopped; features that were computed are kept: the same command goes on",
            file=sys.stderr,
        )
        return INTERRUPTED
    arguments.out = out
    write_out(arguments, [(0, Round(choice.selection))])
    shown = _write_sheet(arguments, choice, sheet, pool)
    _say(arguments, choice, sheet if shown else None)
    return 0


def _choose(arguments: argparse.Namespace, pool: object) -> PretrainedChoice:
    from steepest.cli.select.support import read_labelled
    from steepest.features.pool import pool_features
    from steepest.labelling.exchange.folder import read_names
    from steepest.selecting.options import SelectionOptions, as_strategy
    from steepest.selecting.pretrained import choose_on_features

    options = pairs(arguments.option)
    if options and arguments.strategy is None:
        raise InputError("--option belongs to a strategy: name it by --strategy")
    strategy = None if arguments.strategy is None else as_strategy(arguments.strategy, options)
    names = () if arguments.class_names is None else read_names(arguments.class_names)
    how = SelectionOptions(
        subset=arguments.subset,
        seed=arguments.seed,
        batch_size=arguments.batch_size,
        precision=arguments.precision,
        progress=not arguments.quiet,
        class_names=names,
    )
    for path in arguments.labels:
        if not path.is_file():
            what = "is a folder: give a file" if path.is_dir() else "no such file"
            raise InputError(f"--labels {path}: {what}")
    table = pool_features(
        pool,
        arguments.backbone,
        store=_store(arguments),
        batch_size=None if how.batch_size == "auto" else how.batch_size,
        device=arguments.device,
        progress=how.progress,
    )
    known = _labels(arguments, table, pool)
    left_out, _ = read_labelled(arguments.labelled, table.ids, learnt_from=False)
    how = replace(how, labelled={*(left_out or ()), *known.labels, *known.skipped})
    return choose_on_features(table, arguments.k, strategy, how, known.labels)


def _pool(arguments: argparse.Namespace) -> object:
    """Return the pool: rows of text, an array, or the path of a folder of images."""
    from steepest.cli.select.pool import open_array
    from steepest.data.texts import holds_texts, read_texts

    place: Path = arguments.pool
    if holds_texts(place) and not place.is_dir():
        return read_texts(place, arguments.text_column, label_column=arguments.label_column)
    if arguments.text_column or arguments.label_column:
        raise InputError(
            "--text-column and --label-column are for a table (.csv, .tsv) or JSON lines (.jsonl), "
            f"not for {place}"
        )
    return open_array(place) if place.suffix in (".npy", ".npz") else place


def _store(arguments: argparse.Namespace) -> Path | None:
    """Return where features are kept: beside a file, and in a folder by itself."""
    from steepest.features.store import usual_place

    place: Path = arguments.pool
    features: Path | None = arguments.features
    return usual_place(place.parent) if features is None and place.is_file() else features


def _labels(arguments: argparse.Namespace, table: FeatureTable, pool: object) -> LabelTable:
    from steepest.data.label_table import LabelTable, read_labels, say_unknown
    from steepest.data.texts import TextRows

    root = arguments.pool if arguments.pool.is_dir() else None
    # Files that cannot be read as images have names all the same.
    damaged = {str(name) for name, _ in table.skipped}
    found = LabelTable(dict(pool.labels) if isinstance(pool, TextRows) else {})
    for path in arguments.labels:
        one = read_labels(path, table.ids, root)
        found = found.and_also(one, path)
        unknown = [name for name in one.unknown if name not in damaged]
        if unknown:
            print(f"steepest: warning: {say_unknown(unknown, path)}", file=sys.stderr)
    return found


def _places(arguments: argparse.Namespace) -> tuple[Path, Path | None]:
    """Return where picks and page are written to; both can be."""
    out, kind = arguments.out, arguments.export
    if kind == "label-studio":
        raise InputError("--format label-studio needs --model and --run")
    if out is None:
        out = _unused(EXPORTED[kind] if kind is not None else ".csv")
    elif kind is not None:
        check_export(kind, out)
        check_empty(kind, out)
    elif out.suffix not in SUFFIXES:
        raise InputError(f"--out {out}: picks are saved as .csv or .json")
    if kind is None and out.suffix == ".csv":
        check_writable(sidecar_of(out))
    check_writable(out)
    sheet = arguments.sheet or out.with_suffix(".html")
    if sheet.suffix not in (".html", ".htm"):
        raise InputError(f"--sheet {sheet}: the page is saved as .html")
    check_writable(sheet)
    return out, sheet


def _unused(suffix: str) -> Path:
    """Return a name that no file has: earlier picks may be the only note of who is asked."""
    number, path = 1, Path(f"{_OUT}{suffix}")
    while path.exists() or path.with_suffix(".html").exists():
        number += 1
        path = Path(f"{_OUT}-{number}{suffix}")
    return path


def _write_sheet(
    arguments: argparse.Namespace, choice: PretrainedChoice, sheet: Path | None, pool: object
) -> bool:
    from steepest.data.texts import TextRows
    from steepest.selecting.contact_sheet import contact_sheet, folder_pictures, text_cards

    texts = isinstance(pool, TextRows)
    if sheet is None or not (texts or arguments.pool.is_dir()):
        return False
    page = contact_sheet(
        choice,
        text_cards(pool) if isinstance(pool, TextRows) else folder_pictures(arguments.pool),
        pool=str(arguments.pool),
        command=getattr(arguments, "command_line", ""),
    )
    write_atomically(sheet, page)
    return True


def _say(arguments: argparse.Namespace, choice: PretrainedChoice, sheet: Path | None) -> None:
    if choice.probe is not None and choice.probe.report is not None:
        report, classes = choice.probe.report, counted(len(choice.classes), "class", "classes")
        print(
            f"{counted(report.samples, 'label')} of {classes}: cross-validated accuracy "
            f"{report.accuracy:.0%}, on features of {choice.table.backbone or 'the pool'}"
        )
    elif choice.labels:
        print("all labels are of one class: the picks cover the pool, until there are two")
    say_chosen(arguments, choice.selection)
    if choice.selection.verdict is not None:
        print(choice.selection.verdict)
    if sheet is not None:
        print(f"see them: {sheet}")
    if not choice.labels:
        example = f"{choice.selection.ids[0]},CLASS"
        print(f"label them, and choose the next ones with --labels FILE (lines such as {example})")

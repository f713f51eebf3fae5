"""Label with a Label Studio server: push picks, pull annotations, or keep doing both.

The token is read from LABEL_STUDIO_TOKEN, and from nowhere else.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from steepest.cli.ingest import add_loop_folder, add_map_files, add_reading, say, write_map_files
from steepest.cli.terminal import on_one_line
from steepest.core.http_requests import Patience
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.exchange.folder import LABELS, LoopFolder
from steepest.labelling.label_studio.client import URL_VARIABLE, Client, find_account
from steepest.labelling.label_studio.project import (
    Project,
    default_title,
    ensure_project,
    find_project,
)
from steepest.labelling.label_studio.pull import Reading, pull
from steepest.labelling.label_studio.push import IMAGES, Pictures, push
from steepest.labelling.label_studio.watch import watch

EXAMPLES = ("steepest label-studio push --run loop",)

PATIENCE = Patience()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, one sub-command each."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    send = actions.add_parser("push", help="make a task of each pick that waits for a label")
    fetch = actions.add_parser("pull", help="take in what people said")
    both = actions.add_parser("watch", help="push and pull again and again, until Ctrl-C")
    send.description = "Push the picks that wait for a label to a Label Studio server, as tasks."
    fetch.description = "Pull what people said on a Label Studio server, and take it in as labels."
    both.description = "Push and pull again and again, until Ctrl-C."
    for sub, action in ((send, _push), (fetch, _pull), (both, _watch)):
        _add_server(sub)
        sub.set_defaults(execute=action)
    for sub in (send, both):
        _add_pictures(sub)
    for sub in (fetch, both):
        add_reading(sub)
        add_map_files(sub)
    both.add_argument(
        "--interval",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="between two looks (default: %(default)g)",
    )
    both.add_argument(
        "--until-done", action="store_true", help="end once no sample waits for a label"
    )


def _add_server(parser: argparse.ArgumentParser) -> None:
    add_loop_folder(parser)
    parser.add_argument(
        "--url", metavar="URL", help=f"the server's address (default: {URL_VARIABLE})"
    )
    parser.add_argument(
        "--title", metavar="TITLE", help="the project's title (default: steepest DIR)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to wait for an answer (default: %(default)g)",
    )


def _add_pictures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images",
        choices=IMAGES,
        default="upload",
        help="upload the files (default), embed them in the tasks, or name local files that the "
        "server reads itself",
    )
    parser.add_argument(
        "--local-root",
        type=Path,
        metavar="DIR",
        help="the server's LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT, for --images local",
    )
    parser.add_argument(
        "--pool", type=Path, metavar="PATH", help="where the pool is, if it was moved"
    )


def _push(arguments: argparse.Namespace) -> int:
    folder, client, title = _connect(arguments)
    pictures = _pictures(arguments)
    project = ensure_project(client, title, folder.vocabulary)
    new, there = push(folder, project, pictures)
    print(f"{project.title}: {counted(new, 'new task')}, {there} there already")
    print(f"Label at {project.url}")
    return 0


def _pull(arguments: argparse.Namespace) -> int:
    folder, client, title = _connect(arguments)
    project = find_project(client, title, folder.vocabulary)
    if project is None:
        raise InputError(f"there is no project {title!r} on the server; push first, or see --title")
    print(f"{project.title}: {say(pull(folder, project, _reading(arguments)))}")
    print(f"All labels: {folder.path / LABELS}")
    write_map_files(arguments, folder)
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    folder, client, title = _connect(arguments)
    pictures, reading = _pictures(arguments), _reading(arguments)
    project = ensure_project(client, title, folder.vocabulary)
    print(f"watching {project.title}; label at {project.url}; Ctrl-C ends", flush=True)
    try:
        _follow(arguments, folder, project, pictures, reading)
    except KeyboardInterrupt:
        print(f"stopped; what was pulled is in {folder.path}", file=sys.stderr)
    write_map_files(arguments, folder)
    return 0


def _follow(
    arguments: argparse.Namespace,
    folder: LoopFolder,
    project: Project,
    pictures: Pictures,
    reading: Reading,
) -> None:
    """Tell of each turn in which something happened, and of each new problem once."""
    told = ""
    every = {"interval_seconds": arguments.interval, "sleep": PATIENCE.sleep}
    turns = watch(folder, project, pictures, reading, **every)
    for turn in turns:
        if turn.pushed:
            print(counted(turn.pushed, "new task"), flush=True)
        problem = on_one_line(str(turn.problem)) if turn.problem else ""
        if problem and problem != told:
            print(f"steepest: warning: {problem}; trying again", file=sys.stderr, flush=True)
        told = problem
        if turn.pulled is not None:
            if turn.pulled.anything:
                print(say(turn.pulled), flush=True)
            if arguments.until_done and not turn.pulled.waiting:
                return


def _connect(arguments: argparse.Namespace) -> tuple[LoopFolder, Client, str]:
    folder = LoopFolder.open(arguments.run)
    if not arguments.timeout > 0:
        raise InputError(f"--timeout is {arguments.timeout}; give seconds above 0")
    patience = replace(PATIENCE, timeout_seconds=arguments.timeout)
    client = Client(find_account(arguments.url), patience)
    return folder, client, arguments.title or default_title(folder)


def _pictures(arguments: argparse.Namespace) -> Pictures:
    return Pictures(arguments.images, arguments.pool, arguments.local_root)


def _reading(arguments: argparse.Namespace) -> Reading:
    return Reading(arguments.relabel, arguments.background, arguments.disagreement)

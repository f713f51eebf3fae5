"""Label a project in one of three ways until this process is killed, saying what is done."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from killed_project import say
from small_project import open_project, truth

import steepest
from steepest.errors import PoolError
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.ingest import ingest
from steepest.labelling.exchange.next_round import take_round
from steepest.pool import State
from steepest.selecting.selection import Selection


def wait_for_others() -> None:
    """Begin at the same moment as the others."""
    say("ready")
    sys.stdin.readline()


def page(photos: Path, folder: Path) -> None:
    """Label as a person at the page does."""
    project = open_project(photos, folder=folder)
    wait_for_others()
    while True:
        for task in project.queue.next("ann"):
            project.queue.answer("ann", task.sample, [truth(task.sample)])
            say(task.sample)
            time.sleep(0.02)  # No person is faster, and the others want their turn.


def sheet(photos: Path, folder: Path) -> None:
    """Choose, fill in and ingest sheets."""
    ids = sorted(path.name for path in photos.iterdir() if path.suffix == ".png")
    file = folder.parent / "sheet.csv"

    def choose(pool, k):
        taken = set(pool.taken())
        free = [sample for sample in ids if sample not in taken][-k:]
        return Selection(tuple(free), (1.0,) * len(free), "margin")

    wait_for_others()
    while True:
        loop = LoopFolder.open(folder)
        try:
            take_round(loop, ids, {}, 5, choose, lambda asked: (0,) * len(asked))
        except PoolError:
            continue  # Somebody was quicker.
        waiting = loop.read_pool().ids(State.QUERIED)
        if not waiting:
            continue
        rows = [f"{sample},{truth(sample)}\n" for sample in waiting]
        file.write_text("id,label\n" + "".join(rows))
        ingest(file, loop, who="ben")
        for sample in waiting:
            say(sample)
        time.sleep(0.1)


def python(photos: Path, folder: Path) -> None:
    """Run a loop whose labels come one by one."""
    ids = sorted(path.name for path in photos.iterdir() if path.suffix == ".png")

    def label(asked):
        for sample in asked:
            yield sample, truth(sample)
            say(sample)
            time.sleep(0.02)

    loop = steepest.ActiveLoop(
        ids=ids,
        fit=lambda *_: None,
        predict=lambda asked: np.full((len(asked), 3), 1 / 3),
        label=label,
        folder=folder,
        progress=False,
    )
    wait_for_others()
    loop.run(10**6, 4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    doors = {"page": page, "sheet": sheet, "python": python}
    doors[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))

"""Work on a project until this process is killed, saying on standard output what is done."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from small_project import CLASSES, open_project, truth


def say(*words: object) -> None:
    """Write one line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def label(photos: Path) -> None:
    """Label for ever, in all ways, and say each answer only after it was given."""
    project = open_project(photos)
    number = 0
    while True:
        for task in project.queue.next("ann"):
            number += 1
            if number % 7 == 0:
                project.queue.skip("ann", task.sample)
                say("skip", task.sample)
            else:
                project.queue.answer("ann", task.sample, [truth(task.sample)])
                say("label", task.sample)
            if number % 5 == 0:
                undone = project.queue.undo("ann")
                say("undo", undone.sample)


def train(photos: Path) -> None:
    """Say when a long training is under way."""
    project = open_project(photos, epochs=100_000, batch_size=6, validation_share=0.0)
    for name in CLASSES:
        for path in sorted(photos.glob(f"{name}-*"))[:3]:
            project.queue.answer("ann", path.name, [name])
    project.close()
    project = open_project(
        photos, epochs=100_000, batch_size=6, validation_share=0.0, background=True
    )
    while True:
        state = project.trainer.state()
        if state.stage == "train" and state.done > 0:
            say("training", project.trainer.process_id)
            time.sleep(1000)
        time.sleep(0.05)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"label": label, "train": train}[sys.argv[1]](Path(sys.argv[2]))

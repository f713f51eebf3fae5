"""A small loop on disk without pictures, and label files for it."""

from __future__ import annotations

from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.rounds import Round
from steepest.selecting.selection import Selection

IDS = ["a.png", "b, c.png", "ä d.png", "e.png", "f.png"]
CLASSES = ("cat", "dog", "2")


def make_folder(path, task="classification", ids=IDS, picks=None):
    """Make a loop in whose first round some samples were asked about."""
    folder = LoopFolder(path / "loop", Settings(task, CLASSES, "photos"))
    folder.begin(ids)
    chosen = tuple(picks or ids[:3])
    scores = tuple(float(9 - rank) for rank in range(len(chosen)))
    folder.commit(Round(Selection(chosen, scores, "margin", model="beef")))
    return folder


def labels_of(folder):
    return dict(zip(*folder.read_pool().labelled(), strict=True))


def journal(folder):
    """Return all that ever happened."""
    return list(folder.read_pool().events())

"""A small loop on disk, with pictures, and a client of the fake server that waits for nothing."""

from __future__ import annotations

import numpy as np
from fake_label_studio import TOKEN
from PIL import Image

from steepest.core.http_requests import Patience
from steepest.labelling.exchange.folder import LoopFolder, Settings
from steepest.labelling.exchange.rounds import Round
from steepest.labelling.label_studio.client import Account, Client
from steepest.selecting.selection import Selection

IDS = [f"{i}.png" for i in range(8)]
CLASSES = ("cat", "dog & co", "owl")


def make_loop(path, task="classification", picks=("3.png", "1.png", "5.png"), guesses=None):
    """Make a loop with one round of picks, best first."""
    photos = path / "photos"
    photos.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in IDS:
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).save(photos / name)
    folder = LoopFolder(path / "loop", Settings(task, CLASSES, str(photos)))
    folder.begin(IDS)
    add_round(folder, picks, guesses)
    return folder


def add_round(folder, picks, guesses=None):
    scores = tuple(9.0 - rank for rank in range(len(picks)))
    chosen = Selection(tuple(picks), scores, "entropy-gradnorm", model="beef")
    return folder.commit(Round(chosen, tuple(guesses or ())))


def make_client(url, token=TOKEN, retries=2):
    waits = []
    patience = Patience(retries=retries, timeout_seconds=5, sleep=waits.append)
    client = Client(Account(url, token), patience)
    client.waits = waits
    return client


def journal(folder):
    """Return all that ever happened."""
    return list(folder.read_pool().events())

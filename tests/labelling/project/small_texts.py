"""Short reviews in a table or a folder, and a text encoder that costs nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from steepest.models.backbones import Backbone

GOOD = ("good", "great", "lovely", "fine", "warm")
BAD = ("bad", "dull", "awful", "poor", "cold")


def truth(text: str) -> str:
    """Return whether a review is good or bad: its second word says so."""
    return "good" if text.split()[1] in GOOD else "bad"


def review(number: int) -> str:
    words = BAD if number % 2 else GOOD
    return f"a {words[number % 5]} film number {number}"


def make_table(path: Path, count: int) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "text"))
        table.writerows((f"r{number}", review(number)) for number in range(count))
    return path


def make_texts(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"r{number}.txt").write_text(review(number), encoding="utf-8")
    return folder


class Words(torch.nn.Module):
    """Counts good and bad words, with a little of everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, texts):
        self.seen += texts
        rows = []
        for text in texts:
            words = text.split()
            marks = [sum(word in known for word in words) for known in (GOOD, BAD)]
            rows.append([*marks, len(text) / 100, sum(map(ord, text)) % 7 / 7])
        return torch.tensor(rows, dtype=torch.float32)


def make_backbone() -> Backbone:
    words = Words()
    return Backbone(
        "words", words.eval(), str, "split", "text", lambda texts: {"texts": Texts(texts)}
    )


class Texts(list):
    """A batch of texts, which stays where it is."""

    def to(self, device):
        return self

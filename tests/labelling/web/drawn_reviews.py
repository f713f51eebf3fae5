"""A table of made-up film reviews whose ids say what they are."""

from __future__ import annotations

import csv
import random
from pathlib import Path

_GOOD = (
    "wonderful", "warm", "funny", "moving", "charming", "brilliant", "lovely", "gripping",
)  # fmt: skip
_BAD = (
    "dull", "boring", "lifeless", "clumsy", "tedious", "awful", "shallow", "painful",
)  # fmt: skip
_SUBJECTS = (
    "The film", "This story", "The second half", "The dialogue", "Every scene", "The camera work",
    "The score", "The lead actor", "The ending",
)  # fmt: skip
_ENDS = (
    "and I would see it again.", "as my friends had told me.", "and the audience felt it too.",
    "which surprised me after the first ten minutes.", "but the popcorn was fine.",
    "even though I had read the book before.", "just like the director's other work.",
)  # fmt: skip


def truth(sample: str) -> str:
    """Return what a review says of its film: its id says so."""
    return sample.split("-", maxsplit=1)[0]


def write_reviews(path: Path, count: int, *, seed: int = 0) -> Path:
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "text"))
        for number in range(count):
            kind, words = (("good", _GOOD), ("bad", _BAD))[number % 2]
            sentences = (
                f"{draw.choice(_SUBJECTS)} is {draw.choice(words)} {draw.choice(_ENDS)}"
                for _ in range(draw.choice((1, 1, 1, 2, 3)))
            )
            table.writerow((f"{kind}-{number:03d}", " ".join(sentences)))
    return path

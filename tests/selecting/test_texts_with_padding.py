"""Scores and picks of texts are the same whatever they are padded with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import steepest
from steepest.strategies import Needs, Scorer, Support, create
from steepest.strategies.base import STRATEGIES

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

VOCABULARY, CLASSES = 11, 4
WORDS = [
    torch.randint(0, VOCABULARY, (length,), generator=torch.Generator().manual_seed(length))
    for length in (6, 3, 5, 4, 1, 7, 2, 9)
]
ALONE = Needs.NOTHING | Needs.LOGITS | Needs.GRADIENTS | Needs.FEATURES | Needs.DRAWS
SCORERS = [
    name
    for name in STRATEGIES.names()
    if isinstance(create(name), Scorer)
    and create(name).needs & ~ALONE == Needs.NOTHING
    and create(name).dense
]


class Tagger(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(VOCABULARY, 5)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        real = attention_mask[..., None].to(self.words.weight)
        words = self.words(input_ids)
        mean = (words * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        return self.head(self.drop((words + mean).tanh())).transpose(1, 2)


def padded(to: int):
    def collate(items: list[Tensor]) -> dict[str, Tensor]:
        length = max(to, *map(len, items))
        ids = torch.full((len(items), length), to % VOCABULARY)
        mask = torch.zeros(len(items), length, dtype=torch.long)
        for row, item in enumerate(items):
            ids[row, : len(item)], mask[row, : len(item)] = item, 1
        return {"input_ids": ids, "attention_mask": mask}

    return DataLoader(WORDS, collate_fn=collate)


def scores(strategy: str, to: int, size: int) -> np.ndarray:
    support = Support(members=[Tagger(1).double(), Tagger(2).double()])
    found = steepest.score(
        Tagger().double(), padded(to), strategy, batch_size=size, progress=False, support=support
    )
    assert list(found.ids) == list(range(len(WORDS)))
    return found.values


def test_strategies_that_score_tokens_are_among_those_tested():
    assert {"entropy", "margin", "least-confidence", "entropy-gradnorm", "bald"} <= set(SCORERS)


@pytest.mark.parametrize("strategy", SCORERS)
def test_scores_of_texts_do_not_depend_on_padding(strategy):
    one_by_one = scores(strategy, 0, 1)
    np.testing.assert_allclose(scores(strategy, 0, 8), one_by_one, rtol=1e-9)
    np.testing.assert_allclose(scores(strategy, 12, 3), one_by_one, rtol=1e-9)


def test_entropies_of_the_regime_belong_to_their_texts():
    alone = steepest.score(Tagger().double(), padded(0), "margin", batch_size=1, progress=False)
    together = steepest.score(Tagger().double(), padded(9), "margin", batch_size=8, progress=False)
    np.testing.assert_allclose(together.entropies, alone.entropies, rtol=1e-9)


def test_features_of_texts_do_not_depend_on_padding():
    picks = [
        steepest.select(
            Tagger().double(), padded(to), 4, "core-set", batch_size=size, progress=False
        ).ids
        for to, size in ((0, 1), (0, 8), (12, 3))
    ]
    assert picks[0] == picks[1] == picks[2]

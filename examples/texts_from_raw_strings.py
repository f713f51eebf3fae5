"""Choose texts with a transformers classifier: raw strings in, what to label next out.

Run it with ``python examples/texts_from_raw_strings.py``; it takes transformers, and downloads
nothing: its classifier is a small BERT with random weights.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import steepest
from steepest.data import TokenisedTexts

POSITIVE, NEGATIVE = ("good", "fine", "great", "loved"), ("bad", "poor", "awful", "hated")
THINGS = ("film", "soup", "book", "song", "trip")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "was", "and", *POSITIVE, *NEGATIVE, *THINGS]
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def main() -> None:
    """Learn from 8 labelled sentences, then from 8 more in each of three rounds."""
    texts = [
        f"the {thing} was {first} and {second}" + " and the trip was fine" * (place % 2)
        for place, thing in enumerate(THINGS)
        for opinion in (POSITIVE, NEGATIVE)
        for first in opinion
        for second in opinion
    ]
    truth = [int(any(word in text.split()[3] for word in POSITIVE)) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
        tokenizer = BertTokenizer(str(Path(folder) / "vocab.txt"))
    pool = TokenisedTexts(texts, tokenizer)

    def fit(ids: list[int], labels: list[int]) -> torch.nn.Module:
        torch.manual_seed(0)
        config = BertConfig(vocab_size=len(WORDS), intermediate_size=32, num_labels=2, **SMALL)
        model = BertForSequenceClassification(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        inputs = tokenizer([texts[i] for i in ids], padding=True, return_tensors="pt")
        for _ in range(30):
            optimizer.zero_grad()
            model(**inputs, labels=torch.tensor(labels)).loss.backward()
            optimizer.step()
        return model.eval()

    def evaluate() -> float:
        with torch.no_grad():
            logits = loop.model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
        return float((logits.argmax(1) == torch.tensor(truth)).float().mean())

    def label(ids: list[int]) -> list[int]:  # stands for the people who label
        return [truth[i] for i in ids]

    loop = steepest.ActiveLoop(pool, fit=fit, label=label, evaluate=evaluate, strategy="margin")
    for record in loop.run(rounds=4, k=8):
        print(f"{record.labelled:3d} labels  accuracy {record.metrics['metric']:.3f}")


if __name__ == "__main__":
    main()

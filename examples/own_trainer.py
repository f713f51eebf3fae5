"""The labelling loop around a plain torch trainer of one's own.

Run it with ``python examples/own_trainer.py [FOLDER]``. With a folder, labels and rounds are kept:
kill it and run it again, and it goes on without asking for any label twice.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys

import torch
from torch import nn

import steepest
from steepest.data import load
from steepest.labelling import OracleLabeller

data = load("digits")
images, test_images = data.train_images.float() / 255, data.test_images.float() / 255


def fit(ids: list[int], labels: list[int]) -> nn.Module:
    """Train on all labels there are, and return the model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[ids]), torch.tensor(labels)).backward()
        optimizer.step()
    return model


def main() -> None:
    """Learn from 20 random labels, then from 20 more in each of four rounds."""

    def evaluate() -> float:
        return float((loop.model(test_images).argmax(1) == data.test_labels).float().mean())

    loop = steepest.ActiveLoop(
        images,
        fit=fit,
        label=OracleLabeller(data.train_labels),  # stands for the people who label
        evaluate=evaluate,
        strategy="margin",
        folder=sys.argv[1] if len(sys.argv) > 1 else None,
    )
    for record in loop.run(rounds=5, k=20):
        print(f"{record.labelled:4d} labels  accuracy {record.metrics['metric']:.3f}")


if __name__ == "__main__":
    main()

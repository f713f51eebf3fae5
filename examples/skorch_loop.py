"""Active learning in the manner of scikit-learn, around a torch net in skorch.

Run it with ``python examples/skorch_loop.py``; it takes scikit-learn and skorch. The net is asked
for exact gradient norms through the estimator, scaling of the inputs included.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from steepest.data import load
from steepest.labelling import OracleLabeller
from steepest.sklearn import ActiveLearner


def main() -> None:
    """Learn from 60 random labels, then from 30 more in each of four rounds."""
    torch.manual_seed(0)
    data = load("digits")
    rows = (data.train_images.flatten(1) / 255).numpy()
    test_rows = (data.test_images.flatten(1) / 255).numpy()
    oracle = OracleLabeller(data.train_labels)  # stands for the people who label

    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        max_epochs=30,
        batch_size=32,
        train_split=None,
        verbose=0,
    )
    learner = ActiveLearner(net, strategy="entropy-gradnorm")
    learner.fit(rows, np.full(len(rows), -1))  # -1: no label yet
    for k in (60, 30, 30, 30, 30):
        picked = learner.query(k)
        answers = oracle.label(picked.tolist()).labels
        learner.teach(picked, np.array([answers[i] for i in picked.tolist()]))
        labelled = sum(label is not None for label in learner.y_)
        print(f"{labelled:4d} labels  accuracy {learner.score(test_rows, data.test_labels):.3f}")


if __name__ == "__main__":
    main()

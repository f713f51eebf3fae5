"""A small world for loops: points around three centres, and a trainer that counts."""

from __future__ import annotations

import torch
from torch import nn

CENTRES = torch.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])


def make_points(count=60):
    classes = torch.arange(count) % 3
    noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(0))
    return CENTRES[classes] + noise, classes.tolist()


class Trainer:
    """Sets a linear model to the means of the labelled points, class by class."""

    def __init__(self, points):
        self.points = points
        self.calls = []
        self.model = None

    def means(self, ids, labels):
        rows, classes = self.points[ids], torch.tensor(labels)
        return torch.stack(
            [rows[classes == c].mean(0) if c in labels else torch.zeros(2) for c in range(3)]
        )

    def fit(self, ids, labels):
        self.calls.append((list(ids), list(labels)))
        self.model = nn.Linear(2, 3)
        with torch.no_grad():
            self.model.weight.copy_(self.means(ids, labels))
            self.model.bias.copy_(-self.model.weight.square().sum(1) / 2)
        return self.model

    def predict(self, ids):
        with torch.no_grad():
            return self.model(self.points[ids]).softmax(1).numpy()


class Teacher:
    """Gives labels and remembers whom it was asked about."""

    def __init__(self, classes):
        self.classes = classes
        self.asked = []

    def __call__(self, ids):
        self.asked += ids
        return {i: self.classes[i] for i in ids}

"""Choose what to label next with your own module and a pool that is a tensor.

Run it with ``python examples/choose_from_your_model.py``. It writes ``picks.csv`` into the current
folder and needs no data.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import torch
from torch import Tensor, nn

import steepest


class Net(nn.Module):
    """Any module that returns logits; nothing has to be subclassed but ``nn.Module``."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, features] to logits [N, classes]."""
        logits: Tensor = self.head(self.body(x))
        return logits


def make_samples(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points [N, 2] around three centres, and which centre it was [N]."""
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    classes = torch.randint(3, (count,), generator=generator)
    return centres[classes] + torch.randn(count, 2, generator=generator), classes


def train(model: nn.Module, inputs: Tensor, classes: Tensor) -> None:
    """Fit the few labelled samples."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()


def main() -> None:
    """Train on 30 labels, then ask which 10 of 1,000 samples should be labelled next."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Net(features=2, classes=3)
    train(model, *make_samples(30, generator))

    pool, _ = make_samples(1000, generator)
    names = [f"sample-{i:04d}" for i in range(len(pool))]
    picks = steepest.select(model, pool, k=10, ids=names, labelled=names[:30])

    print(f"{len(picks)} of {picks.candidates} samples by {picks.strategy}:")
    for rank, name, score in zip(picks.ranks, picks.ids, picks.scores, strict=True):
        print(f"{rank:3d}  {name}  {score:.3f}")
    if picks.regime is not None:
        print(f"mean entropy: {picks.regime.entropy_ratio:.0%} of its maximum")
    picks.save("picks.csv")
    print("saved: picks.csv")


if __name__ == "__main__":
    main()

"""The loop around Lightning.

Run it with ``python examples/lightning_loop.py``; it takes lightning.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import warnings

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import steepest
from steepest.data import load
from steepest.labelling import OracleLabeller


class Classifier(lightning.LightningModule):
    """Any Lightning module whose forward returns logits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.net(x)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:  # noqa: D102
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:  # noqa: D102
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Learn from 40 random labels, then from 40 more in each of three rounds."""
    warnings.filterwarnings("ignore", module="lightning")  # its advice, such as more workers
    data = load("digits")
    images, test_images = data.train_images.float() / 255, data.test_images.float() / 255

    def fit(ids: list[int], labels: list[int]) -> nn.Module:
        torch.manual_seed(0)
        model, labelled = Classifier(), TensorDataset(images[ids], torch.tensor(labels))
        batches = DataLoader(labelled, 20, shuffle=True)
        lightning.Trainer(max_epochs=10, accelerator="cpu", barebones=True).fit(model, batches)
        return model

    def evaluate() -> float:
        return float((loop.model(test_images).argmax(1) == data.test_labels).float().mean())

    label = OracleLabeller(data.train_labels)  # stands for the people who label
    loop = steepest.ActiveLoop(images, fit=fit, label=label, evaluate=evaluate, strategy="margin")
    for record in loop.run(rounds=4, k=40):
        print(f"{record.labelled:4d} labels  accuracy {record.metrics['metric']:.3f}")


if __name__ == "__main__":
    main()

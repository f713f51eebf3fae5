"""Lightning: after each fit, the module chooses the next samples to label.

Run it with ``python examples/lightning_loop.py [FOLDER]``; it takes lightning. While it runs, and
afterwards, people may label the samples in FOLDER by the other ways into a project.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import warnings

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepest.data import load
from steepest.integrations.lightning import ActiveLearning
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
    """Learn from 40 random labels, then from 40 more after each of three fits."""
    warnings.filterwarnings("ignore", module="lightning")  # its advice, such as more workers
    data = load("digits")
    images, test_images = data.train_images.float() / 255, data.test_images.float() / 255
    people = OracleLabeller(data.train_labels)  # stands for the people who label

    folder = sys.argv[1] if len(sys.argv) > 1 else "digits-project"
    learning = ActiveLearning(images, k=40, folder=folder, strategy="margin", progress=False)
    picks = learning.choose()  # without a model: at random
    for _ in range(4):
        if picks is not None:
            learning.tell(people.label(picks.ids).labels)
        ids, labels = learning.labelled()
        torch.manual_seed(0)
        model, labelled = Classifier(), TensorDataset(images[ids], torch.tensor(labels))
        options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
        quiet = {"enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(max_epochs=10, callbacks=[learning], **options, **quiet)
        trainer.fit(model, DataLoader(labelled, 20, shuffle=True))
        accuracy = (model(test_images).argmax(1) == data.test_labels).float().mean()
        print(f"{len(ids):4d} labels  accuracy {float(accuracy):.3f}")
        picks = learning.selection


if __name__ == "__main__":
    main()

"""The callback in Lightning's own Trainer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning")
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from steepest.errors import ModelError  # noqa: E402
from steepest.integrations.lightning import ActiveLearning  # noqa: E402

POOL = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings(
        "ignore::lightning.fabric.utilities.rank_zero.LightningDeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:.*:lightning.fabric.utilities.warnings.PossibleUserWarning"),
]


class Classifier(lightning.LightningModule):
    def __init__(self, features=4):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.steps = nn.Linear(features, 3), 0

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        self.steps += 1
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def fit(callback, module, folder, **options):
    ids, labels = callback.labelled()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        callbacks=[callback],
        logger=CSVLogger(folder),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(module, DataLoader(TensorDataset(POOL[ids], torch.tensor(labels)), 4))
    return trainer


@pytest.fixture
def callback(tmp_path):
    options = {"strategy": "margin", "progress": False, "labels": {i: i % 3 for i in range(8)}}
    return ActiveLearning(POOL, 5, tmp_path / "project", **options)


def test_a_fit_ends_with_a_round_in_the_project(callback, tmp_path):
    module = Classifier()
    trainer = fit(callback, module, tmp_path)
    chosen = callback.selection
    assert module.steps == 4
    assert len(chosen) == 5
    assert not set(chosen.ids) & set(range(8))
    callback.tell(dict.fromkeys(chosen.ids, 0))
    fit(callback, module, tmp_path)
    assert not set(callback.selection.ids) & set(chosen.ids)
    logged = trainer.logger.experiment.metrics_file_path
    with open(logged, encoding="utf-8") as file:  # noqa: PTH123
        header, *rows = file.read().splitlines()
    assert {"steepest/labelled", "steepest/queried"} <= set(header.split(","))
    assert rows


def test_a_module_that_does_not_take_the_pool_is_not_trained(callback, tmp_path):
    module = Classifier(features=5)
    with pytest.raises(ModelError):
        fit(callback, module, tmp_path)
    assert module.steps == 0
    assert callback.selection is None


def test_a_trial_run_chooses_nothing(callback, tmp_path):
    fit(callback, Classifier(), tmp_path, fast_dev_run=True)
    assert callback.selection is None

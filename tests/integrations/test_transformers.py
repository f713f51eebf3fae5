"""The callback in Hugging Face's own Trainer."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
datasets = pytest.importorskip("datasets")

from steepest.errors import SettingWarning, SteepestError  # noqa: E402
from steepest.integrations.transformers import ActiveLearning  # noqa: E402

PIXELS = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def make_model(**changes):
    torch.manual_seed(0)
    settings = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, **changes}
    config = transformers.ViTConfig(
        **settings, intermediate_size=8, num_labels=3, image_size=4, patch_size=2, num_channels=1
    )
    return transformers.ViTForImageClassification(config)


@pytest.fixture
def pool():
    return datasets.Dataset.from_dict({"pixel_values": PIXELS.tolist()}).with_format("torch")


def train(callback, model, pool, folder):
    ids, labels = callback.labelled()
    labelled = datasets.Dataset.from_dict(
        {"pixel_values": PIXELS[ids].tolist(), "labels": labels}
    ).with_format("torch")
    arguments = transformers.TrainingArguments(
        str(folder / "out"),
        num_train_epochs=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=labelled, callbacks=[callback])
    trainer.train()
    return trainer


def make(pool, folder, **options):
    given = {"strategy": "margin", "progress": False, "labels": {i: i % 3 for i in range(6)}}
    return ActiveLearning(pool, 4, folder / "project", **(given | options))


def test_training_ends_with_a_round_in_the_project(pool, tmp_path):
    callback = make(pool, tmp_path)
    trainer = train(callback, make_model(), pool, tmp_path)
    assert len(callback.selection) == 4
    assert not set(callback.selection.ids) & set(range(6))
    assert trainer.state.log_history[-1]["steepest/labelled"] == 6
    assert trainer.state.log_history[-1]["steepest/queried"] == 4


def test_a_model_that_does_not_take_the_pool_is_not_trained(pool, tmp_path):
    callback = make(pool.rename_column("pixel_values", "pixels"), tmp_path)
    model = make_model()
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(SteepestError):
        train(callback, model, pool, tmp_path)
    assert all(map(torch.equal, before, model.parameters()))


def test_a_failure_to_choose_does_not_lose_the_trained_model(pool, tmp_path):
    callback = make(pool, tmp_path, strategy="vaal")
    with pytest.warns(SettingWarning, match="no samples were chosen"):
        trainer = train(callback, make_model(), pool, tmp_path)
    assert trainer.state.global_step == 2

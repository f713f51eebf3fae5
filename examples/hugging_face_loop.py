"""Hugging Face's Trainer: after each training run, the model chooses the next samples to label.

Run it with ``python examples/hugging_face_loop.py [FOLDER]``; it takes transformers, accelerate and
datasets, and downloads nothing. The model is a tiny ViT with random weights.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
import tempfile

import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

from steepest.data import load
from steepest.integrations.transformers import ActiveLearning
from steepest.labelling import OracleLabeller

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
PIXELS = {"image_size": 8, "patch_size": 2, "num_channels": 1}


def main() -> None:
    """Learn from 50 random labels, then from 50 more after each of two training runs."""
    data = load("digits")
    pixels, test_pixels = data.train_images.float() / 255, data.test_images.float() / 255
    pool = Dataset.from_dict({"pixel_values": pixels.tolist()}).with_format("torch")
    people = OracleLabeller(data.train_labels)  # stands for the people who label

    folder = sys.argv[1] if len(sys.argv) > 1 else "digits-project"
    learning = ActiveLearning(pool, k=50, folder=folder, strategy="margin", progress=False)
    picks = learning.choose()  # without a model: at random
    for _ in range(3):
        if picks is not None:
            learning.tell(people.label(picks.ids).labels)
        ids, labels = learning.labelled()
        labelled = pool.select(ids).add_column("labels", labels)
        torch.manual_seed(0)
        config = ViTConfig(**SMALL, **PIXELS, intermediate_size=64, num_labels=10)
        model = ViTForImageClassification(config)
        with tempfile.TemporaryDirectory() as output:
            arguments = TrainingArguments(
                output,
                num_train_epochs=30,
                per_device_train_batch_size=25,
                learning_rate=0.003,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
            )
            Trainer(model, arguments, train_dataset=labelled, callbacks=[learning]).train()
        with torch.no_grad():
            found = model.eval()(pixel_values=test_pixels).logits.argmax(1)
        accuracy = (found == data.test_labels).float().mean()
        print(f"{len(ids):4d} labels  accuracy {float(accuracy):.3f}")
        picks = learning.selection


if __name__ == "__main__":
    main()

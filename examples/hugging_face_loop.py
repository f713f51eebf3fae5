"""The labelling loop around a Hugging Face model: here a tiny ViT with random weights.

Run it with ``python examples/hugging_face_loop.py``; it takes transformers and downloads nothing.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import torch
from transformers import ViTConfig, ViTForImageClassification

import steepest
from steepest.data import load
from steepest.labelling import OracleLabeller

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
PIXELS = {"image_size": 8, "patch_size": 2, "num_channels": 1}


def main() -> None:
    """Learn from 50 random labels, then from 50 more in each of two rounds."""
    data = load("digits")
    images, test_images = data.train_images.float() / 255, data.test_images.float() / 255
    pool = [{"pixel_values": image} for image in images]  # its model takes keywords

    def fit(ids: list[int], labels: list[int]) -> torch.nn.Module:
        torch.manual_seed(0)
        config = ViTConfig(**SMALL, **PIXELS, intermediate_size=64, num_labels=10)
        model = ViTForImageClassification(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
        for _ in range(40):
            optimizer.zero_grad()
            model(pixel_values=images[ids], labels=torch.tensor(labels)).loss.backward()
            optimizer.step()
        return model.eval()

    def evaluate() -> float:
        with torch.no_grad():
            logits = loop.model(pixel_values=test_images).logits
        return float((logits.argmax(1) == data.test_labels).float().mean())

    label = OracleLabeller(data.train_labels)  # stands for the people who label
    loop = steepest.ActiveLoop(pool, fit=fit, label=label, evaluate=evaluate, strategy="margin")
    for record in loop.run(rounds=3, k=50):
        print(f"{record.labelled:4d} labels  accuracy {record.metrics['metric']:.3f}")


if __name__ == "__main__":
    main()

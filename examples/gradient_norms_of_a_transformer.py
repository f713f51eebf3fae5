"""Exact per-sample gradient norms of a transformer, checked against one sample at a time.

Run it with ``python examples/gradient_norms_of_a_transformer.py``. Linear layers, normalisation and
embeddings are measured in one batched pass; ``nn.MultiheadAttention`` has no rule, so its
parameters are measured sample by sample. The result is the same either way.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import torch
from torch import Tensor, nn

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.rules import rule_for


class TextClassifier(nn.Module):
    """Two transformer blocks over tokens, and the mean of their outputs."""

    def __init__(self, words: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, batch_first=True) for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Map tokens [N, T] and a mask [N, T] of real tokens to ``{"logits": [N, C]}``."""
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, src_key_padding_mask=~mask)
        weights = mask[..., None] / mask.sum(1)[:, None, None]
        return {"logits": self.head((self.norm(x) * weights).sum(1))}


def main() -> None:
    """Measure a batch of sentences of different lengths."""
    torch.manual_seed(0)
    model = TextClassifier(words=100, classes=5).eval()
    lengths = torch.randint(3, 12, (16, 1))
    mask = torch.arange(12)[None, :] < lengths
    batch = {"tokens": torch.randint(1, 100, (16, 12)) * mask, "mask": mask}

    without = [
        f"{name} ({type(layer).__name__})"
        for name, layer in model.named_modules()
        if list(layer.parameters(recurse=False)) and rule_for(layer) is None
    ]
    print("measured sample by sample:", *without, sep="\n  ")

    norms = steepest.gradient_norms(model, batch, loss="entropy")
    slow = reference_norms(model, batch, loss="entropy")
    print(
        f"largest relative difference to the reference: {((norms - slow).abs() / slow).max():.0e}"
    )

    table = steepest.gradient_norms(model, batch, norm="per-tensor")
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    share = table.square().sum(0) / table.square().sum()
    print("parameters with the largest share of the squared gradient:")
    for column in share.argsort(descending=True)[:3].tolist():
        print(f"  {names[column]}: {share[column]:.0%}")


if __name__ == "__main__":
    main()

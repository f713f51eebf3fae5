"""Exact per-sample gradient norms of a transformer, checked against one sample at a time.

Run it with ``python examples/gradient_norms_of_a_transformer.py``. Attention, normalisation, the
class token and the table of words, which is used twice, are measured in one batched pass. Only
``torch.einsum`` of three factors has no rule: it is run again for each sample. It shares the table
with the first layer, so that gradients of both are built and added up ("instantiate") before they
are squared. The result is the same either way.
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import torch
from torch import Tensor, nn

import steepest
from steepest.gradnorm import explain, reference_norms


class TextClassifier(nn.Module):
    """Two transformer blocks over tokens, compared with the words that stand for the classes."""

    def __init__(self, words: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.classes = classes
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, batch_first=True) for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.metric = nn.Parameter(torch.eye(width) / width**0.5)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Map tokens [N, T] and a mask [N, T] of real tokens to ``{"logits": [N, C]}``."""
        x = torch.cat([self.token.expand(len(tokens), -1, -1), self.words(tokens)], dim=1)
        mask = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)
        for block in self.blocks:
            x = block(x, src_key_padding_mask=~mask)
        names = self.words.weight[1 : 1 + self.classes]
        return {"logits": torch.einsum("nd,de,ce->nc", self.norm(x[:, 0]), self.metric, names)}


def main() -> None:
    """Measure a batch of sentences of different lengths."""
    torch.manual_seed(0)
    model = TextClassifier(words=100, classes=5).eval()
    lengths = torch.randint(3, 12, (16, 1))
    mask = torch.arange(12)[None, :] < lengths
    batch = {"tokens": torch.randint(1, 100, (16, 12)) * mask, "mask": mask}

    found = explain(model, batch)
    print("how each use of parameters is measured:")
    for layer in found.layers:
        print(f"  {layer.parameters[0]}: {layer.function}, {layer.route}")
    print(f"parameters that take the whole model sample by sample: {len(found.slow)}")

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

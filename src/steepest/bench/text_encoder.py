"""A text encoder of the size of BERT-base, as a load for measurements."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TextEncoder(nn.Module):
    """Post-norm transformer encoder with a pooled classifier, as BERT is built.

    Every embedding is looked up per sample, positions too, so that each layer has the samples
    first: that is what all contenders can measure.

    Args:
        classes: The number of classes.
        vocabulary: The number of tokens.
        width: Features per token.
        depth: The number of layers.
        heads: Attention heads per layer.
        longest: The most tokens that a text may have.
    """

    def __init__(
        self,
        classes: int,
        vocabulary: int = 30522,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        longest: int = 512,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.segments = nn.Embedding(2, width)
        for table in (self.tokens, self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                4 * width,
                activation="gelu",
                layer_norm_eps=1e-12,
                batch_first=True,
            )
            for _ in range(depth)
        )
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T] to logits [N, classes]; the second half is the second segment."""
        places = torch.arange(tokens.shape[1], device=tokens.device).repeat(len(tokens), 1)
        halves = (places >= tokens.shape[1] // 2).long()
        x = self.norm(self.tokens(tokens) + self.positions(places) + self.segments(halves))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.classifier(torch.tanh(self.pooler(x[:, 0])))
        return logits


def bert_base(classes: int) -> nn.Module:
    """Make an encoder of the size of BERT-base: 109.5 million parameters."""
    return TextEncoder(classes)

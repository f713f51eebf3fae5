"""ViT-S/16: a small vision transformer on patches of 16x16 pixels."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import ClassVar

import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, make_dropout, place_dropout

_EPS = 1e-6
_PATCH_SIZE = 16


class VisionTransformer(nn.Module):
    """A vision transformer with a class token, learned positions and torchvision's names.

    The first weights are torchvision's too, but for the head: its weights are small instead of
    zero, so that even an untrained model tells samples apart.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        image_size: Height and width of the images in pixels.
        width: Features of a token.
        depth: The number of layers.
        heads: Attention heads of a layer.
        mlp_width: Hidden features of a layer's MLP.
        dropout: How likely activations are dropped, and where; a block is a layer.

    Raises:
        InputError: If the images cannot be cut into whole patches.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("heads.head",)

    def __init__(
        self,
        classes: int,
        channels: int = 3,
        *,
        image_size: int = 224,
        width: int = 384,
        depth: int = 12,
        heads: int = 6,
        mlp_width: int = 1536,
        dropout: Rates = NOWHERE,
    ) -> None:
        super().__init__()
        if image_size < 1 or image_size % _PATCH_SIZE:
            raise InputError(f"image_size must be a multiple of {_PATCH_SIZE}, not {image_size}")
        self.image_size = image_size
        patches = (image_size // _PATCH_SIZE) ** 2
        self.conv_proj = nn.Conv2d(channels, width, _PATCH_SIZE, _PATCH_SIZE)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder(patches + 1, width, depth, heads, mlp_width, dropout.blocks)
        self.dropout = make_dropout(dropout.head)
        head = nn.Linear(width, classes)
        self.heads = nn.Sequential(OrderedDict(head=head))
        fan_in = channels * _PATCH_SIZE**2
        for layer, std in ((self.conv_proj, math.sqrt(1 / fan_in)), (head, 0.02)):
            nn.init.trunc_normal_(layer.weight, std=std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, image_size, image_size] to logits [N, classes].

        Raises:
            InputError: If the images have another size.
        """
        side = self.image_size
        if x.shape[-2:] != (side, side):
            seen = "x".join(map(str, x.shape[-2:]))
            raise InputError(f"images are {seen}, not {side}x{side}: resize, or set image_size")
        tokens = self.conv_proj(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        logits: Tensor = self.heads(self.dropout(self.encoder(tokens)[:, 0]))
        return logits


class Encoder(nn.Module):
    """Positions added to tokens, a row of layers, and a last normalisation.

    Args:
        tokens: Tokens of a sample.
        width: Features of a token.
        depth: The number of layers.
        heads: Attention heads of a layer.
        mlp_width: Hidden features of a layer's MLP.
        dropout: How likely an activation of a layer is dropped; None for never.
    """

    def __init__(
        self,
        tokens: int,
        width: int,
        depth: int,
        heads: int,
        mlp_width: int,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))
        names = [f"encoder_layer_{i}" for i in range(depth)]
        self.layers = nn.Sequential(
            OrderedDict((name, EncoderLayer(width, heads, mlp_width, dropout)) for name in names)
        )
        self.ln = nn.LayerNorm(width, eps=_EPS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T, width] to tokens of the same shape."""
        encoded: Tensor = self.ln(self.layers(tokens + self.pos_embedding))
        return encoded


class EncoderLayer(nn.Module):
    """Attention and an MLP, each normalised before and added to what it reads.

    Args:
        width: Features of a token.
        heads: Attention heads.
        mlp_width: Hidden features of the MLP.
        dropout: How likely an activation is dropped after the attention and after either layer
            of the MLP; None for never.
    """

    def __init__(
        self, width: int, heads: int, mlp_width: int, dropout: float | None = None
    ) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=_EPS)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=_EPS)
        self.dropout = make_dropout(dropout)
        # Dropouts that never drop keep torchvision's numbers: mlp.0 and mlp.3.
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_width),
            nn.GELU(),
            make_dropout(dropout),
            nn.Linear(mlp_width, width),
            make_dropout(dropout),
        )
        for module in self.mlp:
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T, width] to tokens of the same shape."""
        seen = self.ln_1(tokens)
        attended, _ = self.self_attention(seen, seen, seen, need_weights=False)
        tokens = tokens + self.dropout(attended)
        changed: Tensor = tokens + self.mlp(self.ln_2(tokens))
        return changed


@MODELS.register("vit-s16")
def vit_s16(
    classes: int,
    channels: int = 3,
    *,
    image_size: int = 224,
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a ViT-S/16 for photographs of one size, by default 224x224 pixels."""
    rates = place_dropout(dropout, dropout_rate)
    return VisionTransformer(classes, channels, image_size=image_size, dropout=rates)

"""Small nets that each hold one difficulty for per-sample gradient norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CLASSES = 4


class Transformer(nn.Module):
    """Encoder with a class token and position embeddings used as bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 6, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), self.embed(x)], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


class Recurrent(nn.Module):
    """LSTM with the time first, so that the samples are the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 8)
        self.each = nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.words(ids).transpose(0, 1))
        return self.head(self.each(states).mean(0))


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3, padding="same", groups=8, dilation=2, padding_mode="reflect"),
            nn.GroupNorm(2, 8),
            nn.SiLU(inplace=True),
            nn.Conv2d(8, 16, 1, stride=2, groups=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Volume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(1, 6, 3, stride=2, padding=1),
            nn.BatchNorm3d(6),
            nn.ReLU(inplace=True),
            nn.Conv3d(6, 8, 3, padding=1, bias=False),
            nn.BatchNorm3d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(8, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Reused(nn.Module):
    """The same layer called three times: cross terms between its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.again = nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).tanh()
        for _ in range(3):
            x = self.again(x).tanh()
        return self.head(x)


class Tied(nn.Module):
    """Embedding and output layer share one weight; a bias of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(8, 11)
        self.out.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.mix(self.words(ids).mean(1)).tanh())


class Borrowed(nn.Module):
    """A layer's weight is used once by the layer and once behind its back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.linear(self.layer(x).tanh(), self.layer.weight))


class TimeFirst(nn.Module):
    """A layer that sees [T, N, D] with T equal to the batch size of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Linear(6, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.each(x.transpose(0, 1)).tanh()).mean(0))


class Overwritten(nn.Module):
    """The input of a layer is overwritten after the layer has used it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.scale = nn.Linear(6, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        z = self.first(y)
        y.mul_(0.5)
        return self.head(self.scale(z + y).tanh())


class Checkpointed(nn.Module):
    """Activations are dropped and computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.body, self.first(x).tanh(), use_reentrant=False)
        return self.head(x)


class Mixed(nn.Module):
    """Unused, detached and frozen parts, 1-D convolutions, and a dict as output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 8, 3, padding=2, stride=2, padding_mode="circular")
        self.norm = nn.BatchNorm1d(8)
        self.side = nn.Conv1d(6, 8, 1)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Linear(8, 8)
        self.frozen.weight.requires_grad_(False)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = x.transpose(1, 2)
        side = self.side(x).mean(2).detach()
        main = self.norm(self.conv(x)).relu_().mean(2)
        return {"logits": self.head(self.frozen(main + side))}


class Slope(nn.Module):
    """A layer type without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Dense(nn.Module):
    """Per-pixel classification."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, CLASSES, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def vectors(n: int) -> Tensor:
    return torch.randn(n, 6)


def sequences(n: int) -> Tensor:
    return torch.randn(n, 5, 6)


def words(n: int) -> Tensor:
    return torch.randint(0, 11, (n, 7))


def images(n: int) -> Tensor:
    return torch.randn(n, 3, 8, 8)


def volumes(n: int) -> Tensor:
    return torch.randn(n, 1, 6, 6, 6)


NETS = {
    "transformer": (Transformer, sequences),
    "lstm": (Recurrent, words),
    "depthwise": (Depthwise, images),
    "volume": (Volume, volumes),
    "reused": (Reused, vectors),
    "tied": (Tied, words),
    "borrowed": (Borrowed, vectors),
    "time-first": (TimeFirst, sequences),
    "checkpointed": (Checkpointed, vectors),
    "mixed": (Mixed, sequences),
    "slope": (Slope, vectors),
    "dense": (Dense, images),
}

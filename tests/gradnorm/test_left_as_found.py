"""Models that change themselves in a forward pass, and are left as they were found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import steepest
from steepest.errors import ModelError
from steepest.gradnorm import GradientNorms, reference_norms

LONG, SHORT = 8, 3


class Blocks(nn.Module):
    """Attention within blocks of four words; shorter texts make no block."""

    def __init__(self, words: nn.Linear) -> None:
        super().__init__()
        self.words = words

    def forward(self, x: Tensor) -> Tensor:
        return self.words(x).unflatten(1, (-1, 4)).softmax(2).flatten(1, 2)


class Whole(nn.Module):
    """Attention to all words."""

    def __init__(self, words: nn.Linear) -> None:
        super().__init__()
        self.words = words

    def forward(self, x: Tensor) -> Tensor:
        return self.words(x).softmax(1)


class ChangesOver(nn.Module):
    """Takes another layer for short texts, and notes that it did, as BigBird does."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = "blocks"
        self.attention: nn.Module = Blocks(nn.Linear(4, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] < 4 and self.kind == "blocks":
            self.kind = "whole"
            self.attention = Whole(self.attention.words).eval()
        if (self.kind == "blocks") is not isinstance(self.attention, Blocks):
            raise RuntimeError("half changed over")
        return self.head(self.attention(x).square().sum(1))


def texts(length: int) -> Tensor:
    torch.manual_seed(length)
    return torch.randn(6, length, 4, dtype=torch.float64)


def make() -> ChangesOver:
    torch.manual_seed(0)
    return ChangesOver().double().eval()


def test_a_layer_that_is_swapped_for_some_batches_is_put_back():
    model = make()
    blocks, names = model.attention, [name for name, _ in model.named_modules()]
    norms = GradientNorms(model, norm="per-tensor")
    for length in (LONG, SHORT, LONG, SHORT):
        found = norms(texts(length))
        assert model.attention is blocks
        assert model.kind == "blocks"
        assert [name for name, _ in model.named_modules()] == names
        torch.testing.assert_close(found, reference_norms(make(), texts(length), norm="per-tensor"))


def test_it_is_put_back_after_an_error():
    model = make()
    blocks = model.attention
    with pytest.raises(ModelError, match="failed on inputs"):
        steepest.gradient_norms(model, torch.randn(6, SHORT, 5, dtype=torch.float64))
    assert model.attention is blocks
    assert model.kind == "blocks"


@pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")
@pytest.mark.parametrize("strategy", ["margin", "entropy-gradnorm", "core-set"])
def test_selecting_puts_it_back(strategy):
    model = make()
    blocks = model.attention
    steepest.select(model, texts(SHORT), 2, strategy=strategy, progress=False)
    assert model.attention is blocks
    assert model.kind == "blocks"
    model(texts(LONG))


class Grows(nn.Module):
    """Makes a layer, a weight and a statistic when it first sees data."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.full((4,), 2.0, dtype=x.dtype))
            self.squash = nn.Tanh().eval()
            self.register_buffer("seen", torch.ones((), dtype=x.dtype))
        return self.head(self.squash(x * self.scale * self.seen))


def test_what_a_first_batch_adds_is_taken_away_again():
    torch.manual_seed(0)
    model, x = Grows().double().eval(), torch.randn(6, 4, dtype=torch.float64)
    norms = GradientNorms(model, norm="per-tensor")
    for _ in range(2):
        torch.testing.assert_close(norms(x), reference_norms(model, x, norm="per-tensor"))
        assert list(model._modules) == ["head"]
        assert not model._parameters
        assert not model._buffers


class Renews(nn.Module):
    """Puts another tensor into the place of a weight, and its layers into another order."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(self.two(self.one(x)))
        one = self._modules.pop("one")
        self.one = one
        self.head.bias = nn.Parameter(self.head.bias.detach() + 1)
        return logits


def test_weights_and_the_order_of_layers_are_put_back():
    torch.manual_seed(0)
    model, x = Renews().double().eval(), torch.randn(6, 4, dtype=torch.float64)
    before = list(model.named_parameters())
    norms = GradientNorms(model, norm="per-tensor")
    first = norms(x)
    after = list(model.named_parameters())
    assert [name for name, _ in after] == [name for name, _ in before]
    assert all(a is b for (_, a), (_, b) in zip(after, before, strict=True))
    torch.testing.assert_close(norms(x), first)

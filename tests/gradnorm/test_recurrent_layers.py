"""Recurrent layers, padded or packed: exact, and in one pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from steepest.gradnorm import GradientNorms, engine, reference_norms
from steepest.gradnorm.watch.recurrent import can_be_opened

CLASSES, WIDTH, STEPS = 3, 4, 5
LENGTHS = (3, 5, 1, 5, 2, 4)


@pytest.fixture(autouse=True)
def _unhelped(monkeypatch):
    """Let nothing be saved by the look at single samples."""
    monkeypatch.setattr(engine.Engine, "_disproved", lambda *_: set())


class Reader(nn.Module):
    """A recurrent layer that reads whole sequences, or packs them by their lengths."""

    def __init__(self, layer: nn.Module, *, packed: bool, ordered: bool = False) -> None:
        super().__init__()
        self.enter, self.layer = nn.Linear(WIDTH, WIDTH), layer
        sides = 2 if layer.bidirectional else 1
        size = layer.proj_size or layer.hidden_size
        self.packed, self.ordered = packed, ordered
        self.head, self.last = nn.Linear(sides * size, CLASSES), nn.Linear(size, CLASSES)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        time = 1 if self.layer.batch_first else 0
        x = self.enter(x) if time else self.enter(x).transpose(0, 1)
        if self.packed:
            x = pack_padded_sequence(
                x, lengths, batch_first=bool(time), enforce_sorted=self.ordered
            )
        y, last = self.layer(x)
        if self.packed:
            y, _ = pad_packed_sequence(y, batch_first=bool(time), total_length=STEPS)
        states = last if isinstance(last, tuple) else (last,)
        ends = states[0] + (states[1][..., : states[0].shape[2]] if len(states) > 1 else 0)
        return self.head(y).sum(time) + self.last(ends.tanh()).mean(0)


def sequences(lengths: tuple[int, ...] = LENGTHS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(lengths))
    x = torch.randn(len(lengths), STEPS, WIDTH, generator=generator, dtype=torch.float64)
    return x, torch.tensor(lengths)


def check(norms: GradientNorms, batch: tuple[Tensor, Tensor]) -> None:
    truth = reference_norms(norms.engine.model, batch, norm="per-tensor")
    assert bool((truth > 0).any(0).all()) or int(batch[1].max()) == 1
    torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)


def relu(*sizes: int, **options: object) -> nn.RNN:
    return nn.RNN(*sizes, nonlinearity="relu", **options)


OPTIONS = {
    "plain": {},
    "two layers": {"num_layers": 2, "dropout": 0.5},
    "both ways": {"bidirectional": True},
    "two layers both ways": {"num_layers": 2, "bidirectional": True, "bias": False},
    "time first": {"batch_first": False, "num_layers": 2, "bidirectional": True},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(nn.GRU, "plain"), (nn.LSTM, "two layers"), (nn.RNN, "both ways"), (relu, "plain"),
     (nn.GRU, "two layers both ways"), (nn.LSTM, "time first")],
)  # fmt: skip
def test_recurrent_layers_are_measured_by_rule(kind, options, packed):
    torch.manual_seed(0)
    layer = kind(WIDTH, 3, **{"batch_first": True, **OPTIONS[options]})
    model = Reader(layer, packed=packed).double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    check(norms, sequences())
    assert bool(norms.engine.slow_names()) == packed


@pytest.mark.parametrize("packed", [False, True])
def test_projected_states_are_measured_by_rule(packed):
    torch.manual_seed(0)
    layer = nn.LSTM(WIDTH, 5, 2, batch_first=True, proj_size=2)
    norms = GradientNorms(Reader(layer, packed=packed).double().eval(), norm="per-tensor")
    check(norms, sequences())
    assert bool(norms.engine.slow_names()) == packed


def test_a_layer_that_draws_at_random_is_left_alone():
    rest = ((), True, 1, 0.5, True, False)
    sizes, data = torch.tensor([2, 1]), torch.zeros(3, WIDTH)
    assert not can_be_opened((data, data, *rest, False), {})
    assert not can_be_opened((data, sizes, data, *rest), {})
    assert not can_be_opened((data,), {"hx": data})
    calm = (*rest[:4], False, False)
    assert can_be_opened((data, data, *calm, False), {})
    assert can_be_opened((data, sizes, data, *calm), {})


def test_batches_of_other_lengths_and_sizes_follow_each_other():
    torch.manual_seed(0)
    layer = nn.GRU(WIDTH, 3, batch_first=True, bidirectional=True)
    norms = GradientNorms(Reader(layer, packed=True).double().eval(), norm="per-tensor")
    for lengths in (LENGTHS, (1, 1, 1, 5), (5,), (1,), (2, 5)):
        check(norms, sequences(lengths))


def test_sequences_in_the_order_of_their_lengths_may_say_so():
    torch.manual_seed(0)
    model = Reader(nn.LSTM(WIDTH, 3, batch_first=True), packed=True, ordered=True)
    norms = GradientNorms(model.double().eval(), norm="per-tensor")
    for lengths in ((5, 4, 4, 1), (4, 4, 4, 4), (5, 5, 2, 2)):
        check(norms, sequences(lengths))


@pytest.mark.parametrize("packed", [False, True])
def test_a_learnt_first_state_is_exact(packed):
    class Started(Reader):
        def __init__(self) -> None:
            super().__init__(nn.GRU(WIDTH, 3, batch_first=True), packed=packed)
            self.start = nn.Parameter(torch.randn(1, 1, 3))
            self.layer.forward = self.started

        def started(self, x: object) -> object:
            state = self.start.expand(-1, self.samples, -1).contiguous()
            return nn.GRU.forward(self.layer, x, state)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            self.samples = len(x)
            return super().forward(x, lengths)

    torch.manual_seed(0)
    norms = GradientNorms(Started().double().eval(), norm="per-tensor")
    check(norms, sequences())
    assert bool(norms.engine.slow_names()) == packed


def test_steps_add_up_without_a_gradient_being_built(monkeypatch):
    torch.manual_seed(0)
    model = Reader(nn.LSTM(WIDTH, 3, batch_first=True), packed=False).double().eval()
    monkeypatch.setattr("steepest.gradnorm.measure.outer.Outer.dense", None)
    check(GradientNorms(model, norm="per-tensor"), sequences())

"""Recurrent layers are measured without cuDNN, whose backward pass refuses eval mode.

No GPU is needed: a stand-in notes whether cuDNN would be asked, and refuses as it does.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import steepest
from steepest.gradnorm import GradientNorms, engine, explain, reference_norms
from steepest.influence.functional_model import measuring

KINDS = {nn.LSTM: torch.lstm, nn.GRU: torch.gru, nn.RNN: torch.rnn_tanh}
CALLS = set(KINDS.values())


class Cudnn(TorchFunctionMode):
    """Lets recurrent layers that cuDNN would run in eval mode refuse to be sent back.

    Attributes:
        convolved: For each convolution of so many samples, whether cuDNN was allowed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolved: list[tuple[int, bool]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None) -> Any:
        result = func(*args, **(kwargs or {}))
        allowed = torch.backends.cudnn.enabled
        if func is torch.conv1d:
            self.convolved.append((len(args[0]), allowed))
        if func in CALLS and allowed and result[0].requires_grad:
            for each in result:
                each.register_hook(refuse)
        return result


def refuse(_: Tensor) -> None:
    raise RuntimeError("cudnn RNN backward can only be called in training mode")


class Reads(nn.Module):
    """Sounds [N, 3, T]: a convolution, a recurrent net and a linear layer."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.enter, self.read = nn.Conv1d(3, 4, 3), kind(4, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.read(self.enter(x).transpose(1, 2))[0].mean(1))


class ReadsPacked(Reads):
    def forward(self, x: Tensor) -> Tensor:
        lengths = 2 + (x[:, 0, 0] > 0) + (x[:, 1, 0] > 0)
        packed = pack_padded_sequence(
            self.enter(x).transpose(1, 2), lengths, batch_first=True, enforce_sorted=False
        )
        state = self.read(packed)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])


class ReadsInACheckpoint(Reads):
    def forward(self, x: Tensor) -> Tensor:
        def read(rows: Tensor) -> Tensor:
            return self.read(rows)[0].mean(1)

        return self.head(checkpoint(read, self.enter(x).transpose(1, 2), use_reentrant=False))


def make(form: type[Reads], kind: type[nn.RNNBase]) -> tuple[Reads, Tensor]:
    torch.manual_seed(0)
    return form(kind).double().eval(), torch.randn(7, 3, 6, dtype=torch.float64)


def frozen(model: Reads) -> None:
    model.read.requires_grad_(False)


def hooked(model: Reads) -> None:
    """Every parameter with a hook takes the loop."""
    for parameter in model.parameters():
        parameter.register_hook(lambda g: g)


def as_it_is(_: Reads) -> None:
    pass


@pytest.mark.parametrize("change", [as_it_is, frozen, hooked])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [Reads, ReadsPacked, ReadsInACheckpoint])
def test_recurrent_layers_are_sent_back_without_cudnn(form, kind, change):
    model, x = make(form, kind)
    change(model)
    truth = reference_norms(model, x, norm="per-tensor")
    with Cudnn():
        found = GradientNorms(model, norm="per-tensor", verify=3)(x)
        again = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, truth)
    torch.testing.assert_close(again, truth)
    assert torch.backends.cudnn.enabled


def test_the_stand_in_refuses_as_cudnn_does():
    model, x = make(Reads, nn.GRU)
    with Cudnn(), pytest.raises(RuntimeError, match="can only be called in training mode"):
        model(x).sum().backward()


def test_convolutions_keep_cudnn_where_recurrent_layers_are_taken_apart(monkeypatch):
    monkeypatch.setattr(engine, "_COMPARED", 2)
    model, x = make(Reads, nn.LSTM)
    norms = GradientNorms(model)
    with Cudnn() as seen:
        norms(x)
        assert {allowed for samples, allowed in seen.convolved if samples < 7} == {False}
        assert {allowed for samples, allowed in seen.convolved if samples == 7} == {True}
        assert not explain(model, x).slow


def test_a_model_without_recurrent_layers_never_does_without_cudnn():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.Flatten(), nn.Linear(16, 3)).eval()
    with Cudnn() as seen:
        steepest.gradient_norms(model, torch.randn(7, 3, 6), verify=2)
    assert {allowed for _, allowed in seen.convolved} == {True}


@pytest.mark.parametrize("allowed", [True, False])
def test_the_process_keeps_its_setting(allowed, monkeypatch):
    monkeypatch.setattr(engine, "_COMPARED", 2)
    model, x = make(Reads, nn.GRU)
    with torch.backends.cudnn.flags(enabled=allowed):
        with Cudnn() as seen:
            steepest.gradient_norms(model, x)
        assert torch.backends.cudnn.enabled is allowed
        assert {each for samples, each in seen.convolved if samples == 7} == {allowed}
        with pytest.raises(steepest.errors.ModelError):
            steepest.gradient_norms(model, x[:, :2])
        assert torch.backends.cudnn.enabled is allowed


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_scripted_recurrent_layers_are_known():
    model, x = make(Reads, nn.LSTM)
    seen: list[bool] = []

    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(model)

        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.backends.cudnn.enabled)
            return self.inner(x)

    found = steepest.gradient_norms(Holds().eval(), x, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))
    assert set(seen) == {False}


def test_influence_does_without_cudnn_too():
    for kind, allowed in ((nn.GRU, False), (nn.Linear, True)):
        with measuring(nn.Sequential(kind(4, 5))):
            assert torch.backends.cudnn.enabled is allowed
        assert torch.backends.cudnn.enabled

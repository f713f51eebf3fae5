"""Batches of several forms: each as exact and as fast as the first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steepest.errors import SteepestError
from steepest.gradnorm import GradientNorms, engine, recorded, reference_norms
from steepest.gradnorm.recorded import Recorder

CLASSES = 3


class Sentences(nn.Module):
    """Words and their places, through a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(9, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        y = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.encoder(y).mean(1))


class Part(nn.Module):
    """A part of a parameter as long as the sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Parameter(torch.randn(1, 9, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head((self.words(ids) * self.places[:, : ids.shape[1]]).tanh().mean(1))


class TimeFirst(nn.Module):
    """Words folded into the batch, all first words first."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.each = nn.Embedding(11, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        y = self.each(self.words(ids).transpose(0, 1).flatten(0, 1)).tanh()
        return self.head(y.view(ids.shape[1], len(ids), 8).mean(0))


class Turned(nn.Module):
    """Another order of the samples for sentences of odd length."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.each = nn.Embedding(11, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        y = self.words(ids).mean(1)
        if ids.shape[1] % 2:
            return self.head(self.each(y.flip(0)).flip(0))
        return self.head(self.each(y))


def sentences(length: int, samples: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(0, 11, (samples, length), generator=generator)


def check(norms: GradientNorms, model: nn.Module, batch) -> None:
    truth = reference_norms(model, batch, norm="per-tensor")
    torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("kind", [Sentences, Part, TimeFirst])
def test_another_length_costs_no_loop(kind):
    torch.manual_seed(0)
    model = kind().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for length in (6, 5, 6, 9, 5):
        check(norms, model, sentences(length))
        assert norms.engine.slow_names() == []


def test_another_size_of_image_costs_no_loop():
    class Windows(nn.Module):
        """Quarters of an image folded into the batch."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(2, 4, 2), nn.Linear(4, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            windows = x.unfold(2, 3, 3).unfold(3, 3, 3).permute(0, 2, 3, 1, 4, 5)
            y = self.conv(windows.flatten(0, 2)).tanh().mean((2, 3))
            return self.head(y.view(len(x), -1, 4).mean(1))

    torch.manual_seed(0)
    model = Windows().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for size in (6, 9, 6):
        check(norms, model, torch.randn(3, 2, size, size, dtype=torch.float64))
        assert norms.engine.slow_names() == []


def test_what_only_one_form_does_is_seen():
    torch.manual_seed(0)
    model = Turned().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for length in (6, 6, 5, 5, 6):
        check(norms, model, sentences(length))
        assert norms.engine.slow_names() == []


def test_more_forms_than_are_remembered_are_looked_at_again(monkeypatch):
    monkeypatch.setattr(engine, "_KEPT", 2)
    torch.manual_seed(0)
    model = Part().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    looked = []
    honest = engine.check_company
    monkeypatch.setattr(engine, "check_company", lambda *given: looked.append(1) or honest(*given))
    for length, forms in ((6, 1), (5, 2), (6, 2), (9, 3), (6, 3), (5, 4)):
        check(norms, model, sentences(length))
        assert (length, len(looked)) == (length, forms)
        assert norms.engine.slow_names() == []


def test_the_same_shapes_under_other_names_are_another_form():
    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

        def forward(self, left: Tensor | None = None, right: Tensor | None = None) -> Tensor:
            return self.b(right) if left is None else self.a(left)

    torch.manual_seed(0)
    model, x = Choice().double().eval(), torch.randn(4, 5, dtype=torch.float64)
    norms = GradientNorms(model, norm="per-tensor")
    for name in ("left", "right", "left"):
        check(norms, model, {name: x})
        assert norms.engine.slow_names() == []


def test_a_parameter_that_is_distrusted_is_so_in_every_form():
    torch.manual_seed(0)
    model = Part().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for length in (6, 5):
        norms(sentences(length))
    norms.engine.distrust({model.head.weight})
    for length in (6, 5, 9):
        check(norms, model, sentences(length))
        assert norms.engine.slow_names() == ["head.weight"]


def test_distrust_ends_recordings(monkeypatch):
    class Kept:
        def __init__(self, *_given: object) -> None:
            self.started = 0

        def start(self, _inputs: Tensor) -> None:
            self.started += 1

    monkeypatch.setattr(recorded, "Recording", Kept)
    recorder = Recorder()
    recording = recorder.record("key", sentences(6), None, None)
    assert recorder.start("key", sentences(6)) is recording
    recorder.clear()
    assert recorder.start("key", sentences(6)) is None
    assert recording.started == 1


def test_a_first_sample_alone_leaves_its_form_open():
    torch.manual_seed(0)
    model = TimeFirst().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    for length, samples in ((6, 1), (5, 4), (6, 4), (5, 1)):
        check(norms, model, sentences(length, samples))


def test_a_form_that_the_model_refuses_leaves_the_others_alone():
    torch.manual_seed(0)
    model = Part().double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    check(norms, model, sentences(6))
    with pytest.raises(SteepestError):
        norms(sentences(10))
    check(norms, model, sentences(6))
    assert norms.engine.slow_names() == []

"""What only a GPU can show of compiled training steps; skipped where there is none."""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from steepest.bench.training_loops import make_optimizer
from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.core.torch_settings import own_randomness
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Classification
from steepest.tasks.segmentation import Segmentation
from steepest.training import Checkpoint, Recipe, fit
from steepest.training.fast.compiled_step import CompiledStep
from steepest.training.fast.kernels import formulas
from steepest.training.fast.step import RecordedStep, Step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def batches(count, size=16, seed=0):
    """Return full batches with a smaller one after every fourth, as at the end of an epoch."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for i in range(count):
        y = torch.randint(10, (20 if i % 5 == 4 else 64,), generator=random)
        x = torch.randn(len(y), 3, size, size, generator=random) + y.view(-1, 1, 1, 1) / 5
        found.append((x.to(GPU).contiguous(memory_format=torch.channels_last), y.to(GPU)))
    return found


def fresh(name="cifar-resnet18"):
    return build(name, 10, 3, 0).to(GPU, memory_format=torch.channels_last).train()


def train(kind, data, model=None, amp=True, make=make_optimizer, task=None):
    """Return the state after some steps, and the mean loss."""
    model = fresh() if model is None else model
    with own_randomness(0, GPU):
        step = kind(model, task or Classification(10), make(model), amp=amp)
        for x, y in data:
            step(x, y)
        loss = step.take_total() / sum(len(y) for _, y in data)
    return {name: value.clone() for name, value in model.state_dict().items()}, loss


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("rows", [600, 20000, 70001, 131072])
@pytest.mark.parametrize("block", [False, True])
def test_layers_of_few_and_many_rows_are_normalised_and_repeat_to_the_bit(rows, block):
    random = torch.Generator().manual_seed(rows)
    x, first, more = (torch.randn(rows, 72, generator=random).to(GPU) for _ in range(3))
    state = [torch.rand(72, generator=random).to(GPU) + 0.5 for _ in range(4)]
    residual = more if block else None

    def run(ops, tensors, given):
        x, first, residual, *state = (None if t is None else t.clone() for t in tensors)
        result, *stats = ops.normed(x, *state, 0.1, 1e-5, residual, block)
        # The cut of one precision is given to the other: its edge is a matter of rounding.
        cut = given if given is not None else result
        rest = (x, cut.to(x.dtype) if block else None, *stats, *state[:2], block, block)
        return (result, *stats, *state, *ops.normed_backward(first, residual, *rest))

    inputs = (x, first, residual, *state)
    found, again = (run(torch.ops.steepest, inputs, None) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    wide = [None if t is None else t.double() for t in inputs]
    for mine, true in zip(found, run(formulas, wide, found[0]), strict=True):
        assert float((mine.double() - true).norm()) <= 1e-5 * float(true.norm())


@pytest.mark.parametrize("amp", [False, True])
def test_compiled_steps_are_near_the_plain_ones(amp):
    data = batches(20)
    _, plain = train(Step, data, amp=amp)
    state, compiled = train(CompiledStep, data, amp=amp)
    assert compiled == pytest.approx(plain, rel=0.1)
    assert all(bool(torch.isfinite(v).all()) for v in state.values())


def first_step(kind, data, amp, dtype=torch.float32):
    """Return how far the first step moves each parameter, in double precision."""
    before = {name: value.double() for name, value in fresh().state_dict().items()}
    data = [(x.to(dtype), y) for x, y in data]
    after, _ = train(kind, data, model=fresh().to(dtype), amp=amp)
    return {
        name: after[name].double() - value
        for name, value in before.items()
        if value.is_floating_point() and "running" not in name
    }


@pytest.mark.parametrize("amp", [False, True])
def test_the_first_step_errs_no_more_than_the_plain_one_does(amp):
    data = batches(1)
    true = first_step(Step, data, False, torch.float64)
    plain, compiled = (first_step(kind, data, amp) for kind in (Step, CompiledStep))
    for name, moved in true.items():
        allowed = 3 * float((plain[name] - moved).norm()) + 1e-3 * float(moved.norm()) + 1e-9
        assert float((compiled[name] - moved).norm()) <= allowed, name


def test_compiled_steps_are_repeatable_to_the_bit():
    data = batches(20)
    assert same(train(CompiledStep, data)[0], train(CompiledStep, data)[0])


def test_recorded_or_not_a_compiled_step_gives_the_same_bits(monkeypatch):
    data = batches(20)
    recorded = train(CompiledStep, data)[0]
    monkeypatch.setattr(CompiledStep, "_is_due", lambda self, form: False)
    assert same(recorded, train(CompiledStep, data)[0])


def test_the_last_batches_are_recorded_too():
    model = fresh()
    step = CompiledStep(model, Classification(10), make_optimizer(model), amp=True)
    for x, y in batches(30):
        step(x, y)
    assert len(step._recorded) == 2


@pytest.mark.parametrize("nesterov", [False, True])
def test_our_descent_is_that_of_torch(nesterov, monkeypatch):
    from steepest.training.fast.update import ParameterUpdate

    def make(model):
        lr = torch.tensor(0.01, device=GPU)
        options = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": nesterov, "fused": True}
        return torch.optim.SGD(model.parameters(), lr, **options)

    data = batches(1)
    ours = train(CompiledStep, data, make=make)[0]
    monkeypatch.setattr(ParameterUpdate, "_is_own", lambda self: False)
    theirs = train(CompiledStep, data, make=make)[0]
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-6)


def test_adam_and_frozen_layers():
    def make(model):
        lr = torch.tensor(1e-3, device=GPU)
        return torch.optim.Adam(
            [p for p in model.parameters() if p.requires_grad], lr, fused=True, capturable=True
        )

    model = fresh()
    model.conv1.weight.requires_grad_(False)
    before = model.conv1.weight.clone()
    _, loss = train(CompiledStep, batches(20), model=model, make=make)
    assert torch.equal(model.conv1.weight, before)
    assert loss < 2.5


def test_label_maps():
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 4, 1)]
    model = nn.Sequential(*layers).to(GPU, memory_format=torch.channels_last).train()
    x = torch.randn(8, 3, 16, 16, device=GPU).contiguous(memory_format=torch.channels_last)
    y = (x[:, 0] > 0).to(torch.uint8)
    step = CompiledStep(model, Segmentation(4), make_optimizer(model), amp=True)
    totals = []
    for _ in range(30):
        step(x, y)
        totals.append(step.take_total())
    assert totals[-1] < 0.8 * totals[0]


class Curious(nn.Module):
    """Looks at a value on its way, which can be neither traced nor recorded."""

    def __init__(self):
        super().__init__()
        self.net = fresh("small-cnn")

    def forward(self, x):
        return self.net(x) * (1.0 if float(x.detach().sum()) > -1e9 else 2.0)


def test_a_model_that_cannot_be_compiled_is_trained_plainly():
    data, model = batches(12), Curious().train()
    twin = copy.deepcopy(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled, _ = train(CompiledStep, data, model=model)
    words = [str(w.message) for w in told if "taken plainly" in str(w.message)]
    assert len(words) == 2  # Neither compiled nor recorded.
    assert same(compiled, train(Step, data, model=twin)[0])


def test_steps_of_several_forms_stay_the_plain_ones_when_recorded():
    data = batches(30)
    assert same(train(Step, data)[0], train(RecordedStep, data)[0])


class StopError(Exception):
    pass


class StopAfter(SilentProgress):
    """Ends a training after some epochs, as a kill at an epoch's end does."""

    def __init__(self, epochs):
        self.left = epochs

    @contextmanager
    def task(self, name, total):
        yield self

    def advance(self, amount=1, note=""):
        if self.left == 0:
            raise StopError
        self.left -= amount


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dropout", ["none", "head"])
def test_a_stopped_training_ends_like_an_uninterrupted_one(tmp_path, compiled, dropout):
    images = torch.randint(256, (150, 3, 16, 16), generator=generator(0, "images"))
    labels = torch.randint(10, (150,), generator=generator(0, "labels"))
    recipe = Recipe(epochs=6, batch_size=32, lr=0.01, amp=True, compile=compiled)

    def run(model, checkpoint=None, progress=None):
        fit(
            model, Classification(10), images.to(torch.uint8), labels, recipe,
            mean=(0.5,) * 3, std=(0.25,) * 3, augmentation="crop-flip", seed=0, device=GPU,
            progress=progress or SilentProgress(), checkpoint=checkpoint,
        )  # fmt: skip
        return fingerprint(model)

    def make():
        return build("cifar-resnet18", 10, 3, 0, {"dropout": dropout})

    whole = run(make())
    file = tmp_path / "training.safetensors"
    with pytest.raises(StopError):
        run(make(), Checkpoint(file, 0), StopAfter(3))
    assert run(make(), Checkpoint(file, 0)) == whole

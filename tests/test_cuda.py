"""What only a GPU can show; skipped where there is none."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import steepest
from steepest.core.progress import SilentProgress
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.engine import Engine
from steepest.models import build
from steepest.modules.losses import resolve
from steepest.tasks import Classification
from steepest.training import Recipe, fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def train(**changes):
    pixels = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (600, 3, 16, 16), dtype=torch.uint8, generator=pixels)
    model = build("cifar-resnet18", 10, 3, 0)
    recipe = Recipe(epochs=3, milestones=(2,), batch_size=64, lr=0.02, **changes)
    fit(
        model,
        Classification(10),
        images,
        torch.arange(600) % 10,
        recipe,
        mean=(0.5,) * 3,
        std=(0.2,) * 3,
        augmentation="crop-flip",
        seed=1,
        device=torch.device("cuda"),
        progress=SilentProgress(),
    )
    return [value.cpu() for value in model.state_dict().values()]


@pytest.mark.parametrize("amp", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_recorded_step_is_the_plain_step(amp, optimizer):
    plain = train(amp=amp, optimizer=optimizer, cuda_graph=False)
    recorded = train(amp=amp, optimizer=optimizer)
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_training_is_repeatable_and_leaves_the_global_state_alone():
    before = torch.cuda.get_rng_state()
    assert all(torch.equal(a, b) for a, b in zip(train(), train(), strict=True))
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_gradient_norms_on_a_gpu_equal_one_sample_autograd():
    model = build("cifar-resnet18", 10, 3, 0).eval()
    x = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    truth = reference_norms(copy.deepcopy(model).double(), x.double())
    found = steepest.gradient_norms(model.cuda(), x.cuda()).cpu().double()
    # Convolutions use TF32 by default, which keeps about three digits.
    assert float(((found - truth).abs() / truth).max()) < 2e-3


def test_scoring_moves_to_the_gpu_and_leaves_the_model_where_it_is():
    model = build("small-cnn", 10, 3, 0)
    pool = torch.randn(300, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    here = steepest.score(model, pool, "fisher-gradnorm", progress=False)
    there = steepest.score(model, pool, "fisher-gradnorm", device="cuda", progress=False)
    np.testing.assert_allclose(there.values, here.values, rtol=5e-2)
    assert next(model.parameters()).device.type == "cpu"


@pytest.fixture
def small_net():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 100, 7)).cuda().eval()


def test_recorded_batches_equal_those_that_are_not(small_net):
    recorded = GradientNorms(small_net, precision="fp32")
    plain = GradientNorms(small_net, precision="fp32", graphs=False)
    for seed in range(4):
        x = torch.randn(16, 3, 12, 12, generator=torch.Generator().manual_seed(seed)).cuda()
        torch.testing.assert_close(recorded(x), plain(x), rtol=1e-5, atol=0)
        with torch.no_grad():  # Recordings must see weights that change in place.
            small_net[0].weight.mul_(1.1)
    assert any(recorded.engine._recorder._recordings.values())


def test_the_kernels_of_a_gpu_agree_with_its_operators(small_net):
    x = torch.randn(16, 3, 12, 12, generator=torch.Generator().manual_seed(5)).cuda()
    engine = Engine(small_net, precision="fp32", graphs=False)
    losses = resolve("entropy", None, len(x))
    _, (fused,) = engine.squared_norms(x, losses)
    engine.routes.kernels = False
    _, (plain,) = engine.squared_norms(x, losses)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=0)


def test_after_a_measurement_training_can_still_be_recorded(small_net):
    x = torch.randn(16, 3, 12, 12, generator=torch.Generator().manual_seed(6)).cuda()
    norms = GradientNorms(small_net)
    for _ in range(3):
        norms(x)
    parameters, stream = list(small_net.parameters()), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(small_net(x).sum(), parameters)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.autograd.grad(small_net(x).sum(), parameters)
    graph.replay()
    torch.cuda.synchronize()


class PackedSentences(nn.Module):
    """Sentences [N, T, D] of several lengths [N], packed for a recurrent net."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        order = {"batch_first": True, "enforce_sorted": False}
        _, state = self.read(pack_padded_sequence(x, lengths.cpu(), **order))
        return self.head(state[-1])


@pytest.mark.parametrize("change", ["frozen", "hooked", "as it is"])
def test_recurrent_layers_in_eval_mode_are_sent_back_on_a_gpu(change):
    torch.manual_seed(0)
    read = nn.LSTM(4, 5, batch_first=True)
    model = nn.ModuleDict({"enter": nn.Linear(4, 4), "read": read, "head": nn.Linear(5, 3)})
    model.forward = lambda x: model["head"](model["read"](model["enter"](x))[0].mean(1))
    model.eval()
    x = torch.randn(9, 6, 4)
    if change == "frozen":
        read.requires_grad_(False)
    truth = reference_norms(model.cpu(), x)
    model.cuda()
    for parameter in model.parameters() if change == "hooked" else ():
        parameter.register_hook(lambda g: g)
    found = GradientNorms(model, verify=2)(x.cuda()).cpu()
    torch.testing.assert_close(found, truth, rtol=2e-3, atol=1e-6)
    assert torch.backends.cudnn.enabled


class Experts(nn.Module):
    """Sends each sample [N, T, D] to one of two nets, by the parity of its length [N]."""

    def __init__(self) -> None:
        super().__init__()
        self.nets, self.head = nn.ModuleList(nn.Linear(4, 5) for _ in "ab"), nn.Linear(5, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        hidden = x.new_zeros(len(x), 5)
        for parity, net in enumerate(self.nets):
            (here,) = torch.where(lengths % 2 == parity)
            hidden.index_add_(0, here, net(x[here].mean(1)).tanh())
        return self.head(hidden)


@pytest.mark.parametrize("kind", [PackedSentences, Experts])
def test_samples_in_any_order_are_exact_on_a_gpu(kind):
    draws = torch.Generator().manual_seed(4)
    x = torch.randn(70, 6, 4, generator=draws)
    lengths = torch.randint(1, 7, (70,), generator=draws)
    torch.manual_seed(0)
    model = kind().eval()
    truth = reference_norms(copy.deepcopy(model).double(), (x.double(), lengths))
    norms = GradientNorms(model.cuda())
    found = norms((x.cuda(), lengths.cuda())).cpu().double()
    assert float(((found - truth).abs() / truth).max()) < 2e-3

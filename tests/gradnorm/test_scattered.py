"""Samples that are sent to experts, or stand in one list: exact, and in one pass where possible."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import steepest
from steepest.errors import ModelError
from steepest.gradnorm import GradientNorms, engine, reference_norms
from steepest.modules import losses

CLASSES, WIDTH, EXPERTS = 3, 4, 3


@pytest.fixture
def unchecked(monkeypatch):
    """Let nothing be saved by the look at single samples."""
    monkeypatch.setattr(engine.Engine, "_disproved", lambda *_: set())
    monkeypatch.setattr(losses.IndependenceCheck, "check", lambda *_: None)


def check(norms: GradientNorms, batch: Tensor | tuple[Tensor, ...]) -> None:
    truth = reference_norms(norms.engine.model, batch, norm="per-tensor")
    torch.testing.assert_close(norms(batch), truth, rtol=1e-9, atol=1e-13)


def expert() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.SiLU(), nn.Linear(5, WIDTH))


class Routed(nn.Module):
    """Words [N, T, D] of which each goes to two experts."""

    def __init__(self, send) -> None:
        super().__init__()
        self.enter, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(expert() for _ in range(EXPERTS))
        self.up = nn.Parameter(torch.randn(EXPERTS, 5, WIDTH))
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, 5))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.send = send

    def forward(self, x: Tensor) -> Tensor:
        words = self.enter(x).flatten(0, 1)
        weights, chosen = self.gate(words).softmax(1).topk(2, dim=1)
        y = self.norm(words + self.send(self, words, weights, chosen))
        return self.head(y.view(x.shape).mean(1))


def by_mask(net, words, weights, chosen):
    """Leave out an expert that nobody chose."""
    out = torch.zeros_like(words)
    for e, one in enumerate(net.experts):
        here = (chosen == e).any(1)
        if here.any():
            out[here] += (weights * (chosen == e)).sum(1)[here, None] * one(words[here])
    return out


def by_number(net, words, weights, chosen):
    """Give an expert that nobody chose nothing to do."""
    out = torch.zeros_like(words)
    for e, one in enumerate(net.experts):
        row, rank = torch.where(chosen == e)
        out.index_add_(0, row, one(words[None, row].flatten(0, 1)) * weights[row, rank, None])
    return out


def of_one_tensor(net, words, weights, chosen):
    """Look for those experts alone that somebody chose, in one tensor of all."""
    out = torch.zeros_like(words)
    for (e,) in F.one_hot(chosen, EXPERTS).sum((0, 1)).nonzero():
        row, rank = torch.where(chosen == e)
        y = F.linear(F.linear(words.index_select(0, row), net.up[e]).relu(), net.down[e])
        out.index_add_(0, row, y * weights[row, rank, None])
    return out


def in_order(net, words, weights, chosen):
    """Put the words of the first expert first, and take them apart by their numbers."""
    order = chosen.flatten().argsort(stable=True)
    counts = chosen.flatten().bincount(minlength=EXPERTS).tolist()
    parts = words[order // 2].split(counts)
    made = torch.cat([one(part) for one, part in zip(net.experts, parts, strict=True)])
    scaled = made * weights.flatten()[order, None]
    return torch.zeros_like(words).scatter_add(0, (order // 2)[:, None].expand_as(scaled), scaled)


def words(samples: int = 6, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, 4, WIDTH, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("send", [by_mask, by_number, of_one_tensor, in_order])
def test_experts_are_exact(send, unchecked):
    torch.manual_seed(0)
    norms = GradientNorms(Routed(send).double().eval(), norm="per-tensor")
    for samples, seed in ((6, 0), (1, 4), (2, 2), (7, 3)):
        check(norms, words(samples, seed))


@pytest.mark.parametrize("send", [by_mask, by_number, of_one_tensor, in_order])
def test_experts_that_some_samples_or_all_leave_out_are_exact(send, unchecked):
    torch.manual_seed(0)
    model = Routed(send).double().eval()
    with torch.no_grad():  # The third expert is for one word of one sample, or for none.
        model.gate.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 100, 0]]))
        model.enter.weight.copy_(torch.eye(WIDTH))
        model.enter.bias.zero_()
    x = words()
    x[..., 2] = -1.0
    norms = GradientNorms(model, norm="per-tensor")
    for one in (1.0, -1.0):
        x[3, 1, 2] = one
        check(norms, x)
    unused = "up" if send is not of_one_tensor else "experts.2.0.weight"
    assert bool((norms(x)[:, norms.engine.names.index(unused)] == 0).all())


def test_several_losses_and_labels_go_through_experts():
    torch.manual_seed(0)
    model, x = Routed(by_number).double().eval(), words()
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    found = steepest.gradient_norms(model, x, "cross-entropy", targets=labels, verify=6)
    torch.testing.assert_close(found, reference_norms(model, x, "cross-entropy", targets=labels))
    norms = GradientNorms(model)

    def several(outputs: Tensor, _rows: slice) -> list[Tensor]:
        return [-each for each in outputs.log_softmax(1).unbind(1)]

    _, tables = norms.engine.squared_norms(x, several)
    for label, table in enumerate(tables):
        every = torch.full((len(x),), label)
        truth = reference_norms(model, x, "cross-entropy", targets=every, norm="per-tensor")
        torch.testing.assert_close(table.sqrt(), truth, rtol=1e-9, atol=1e-13)


def turned_away(net, words, weights, chosen):
    """Let an expert take so many words of a batch, and leave the others as they are."""
    out = torch.zeros_like(words)
    for e, one in enumerate(net.experts):
        row, rank = torch.where(chosen == e)
        row, rank = row[:3], rank[:3]
        out = out.index_add(0, row, one(words[row]) * weights[row, rank, None])
    return out


def test_experts_that_turn_words_away_by_what_else_there_is_are_refused(unchecked):
    torch.manual_seed(0)
    norms = GradientNorms(Routed(turned_away).double().eval())
    with pytest.raises(ModelError, match="changes with the other samples"):
        norms(words())


class Queues(nn.Module):
    """Experts that take half of a batch, who comes first, and leave the others as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, CLASSES)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.gate(x).softmax(1).max(1)
        out = x.clone()
        for number, one in enumerate(self.experts):
            row = torch.where(chosen == number)[0][: (len(x) + 1) // 2]
            out = out.index_add(0, row, one(x[row]) * weight[row, None])
        return self.head(out)


def test_who_comes_last_at_an_expert_in_the_batch_and_in_its_half_is_noticed(unchecked):
    torch.manual_seed(0)
    model, x = Queues().double().eval(), torch.randn(100, WIDTH, dtype=torch.float64)
    first, second = (x[model.gate(x).argmax(1) == number] for number in range(2))
    # The fifth for the first expert is the third of its half there.
    batch = torch.stack([first[0], first[1], second[0], second[1], *first[2:5], second[2]])
    with pytest.raises(ModelError, match="changes with the other samples"):
        steepest.gradient_norms(model, batch)


class Centred(nn.Module):
    """Samples in an order of their own, from which the mean of all is taken away."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.each(x[x[:, 0].argsort()])
        return self.head(y - 1e-2 * y.mean(0))


@pytest.mark.parametrize("loss", ["entropy", lambda outputs: outputs["z"].square().sum(1)])
def test_samples_that_depend_on_their_company_are_refused_or_measured_alone(loss, unchecked):
    torch.manual_seed(0)
    model, x = Centred().double().eval(), words()[:, 0]
    if loss == "entropy":
        with pytest.raises(ModelError, match="changes with the other samples"):
            steepest.gradient_norms(model, x, loss)
        return
    model.register_forward_hook(lambda _, __, outputs: {"z": outputs})
    found = steepest.gradient_norms(model, x, loss)
    torch.testing.assert_close(found, reference_norms(model, x, loss), rtol=1e-12, atol=0)


class Unique(nn.Module):
    """Looks at each word once, however many samples have it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.enter = nn.Embedding(80, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        seen, places = x.unique(return_inverse=True)
        return self.head(self.enter(self.words(seen)).tanh()[places].mean(1))


@pytest.mark.parametrize("others", [(15,), (19,), (2, 16), (1, 2, 3)])
def test_rows_that_equal_samples_share_are_not_taken_for_those_of_another(others, unchecked):
    torch.manual_seed(0)
    x = torch.arange(80).reshape(20, 4)
    x[list(others)] = x[0].clone()
    norms = GradientNorms(Unique().double().eval(), norm="per-tensor")
    check(norms, x)


@pytest.mark.parametrize(
    ("kind", "share", "off"), [(torch.float32, 1e-5, 1e-4), (torch.float64, 1e-10, 1e-9)]
)
def test_rows_that_a_sample_shares_by_a_hair_are_not_lost_to_it(kind, share, off, unchecked):
    class Scaled(Unique):
        def forward(self, words: Tensor, scale: Tensor) -> Tensor:
            return super().forward(words) * scale[:, None]

    torch.manual_seed(0)
    model, targets = Scaled().to(kind).eval(), torch.arange(10) % CLASSES
    x, scale = torch.arange(40).reshape(10, 4), torch.ones(10, dtype=kind)
    x[3], scale[3] = x[2], share
    batch, how = (x, scale), {"loss": "cross-entropy", "targets": targets}
    truth = reference_norms(model, batch, **how)
    torch.testing.assert_close(
        steepest.gradient_norms(model, batch, **how), truth, rtol=off, atol=0
    )


class Nested(nn.Module):
    """Sequences of any length in one tensor without padding."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        rows = [one[:count] for one, count in zip(x, lengths.tolist(), strict=True)]
        ragged = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        return self.head(torch.nested.to_padded_tensor(self.each(ragged).relu(), 0.0).sum(1))


def test_nested_tensors_are_exact():
    torch.manual_seed(0)
    norms = GradientNorms(Nested().double().eval(), norm="per-tensor")
    lengths = torch.tensor([1, 2, 3, 4, 5, 6, 1, 2])
    check(norms, (torch.randn(8, 6, WIDTH, dtype=torch.float64), lengths))


class Graphs(nn.Module):
    """Graphs of several sizes: the nodes of all of them in one list, and edges between them."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.enter = nn.Embedding(5, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.slope = nn.BatchNorm1d(WIDTH), nn.PReLU()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(WIDTH, WIDTH)),
            nn.Parameter(torch.ones(4)),
        )
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, kinds: Tensor, sizes: Tensor, edges: Tensor) -> Tensor:
        there = torch.arange(x.shape[1]) < sizes[:, None]
        owner = torch.arange(len(x)).repeat_interleave(sizes)
        nodes = self.enter(x[there]) + self.kinds(kinds[there])
        start, end = (
            edges % sizes[:, None, None] + (sizes.cumsum(0) - sizes)[:, None, None]
        ).unbind(2)
        for _ in range(2):
            sent = torch.zeros_like(nodes).index_add_(0, end.flatten(), nodes[start.flatten()])
            nodes = self.slope(self.norm((nodes + sent) @ self.weight + self.bias))
        return self.head(nodes.new_zeros(len(x), WIDTH).index_add_(0, owner, nodes))


def graphs(samples: int, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 6, WIDTH, generator=generator, dtype=torch.float64)
    kinds = torch.randint(5, (samples, 6), generator=generator)
    sizes = torch.randint(1, 7, (samples,), generator=generator)
    return x, kinds, sizes, torch.randint(6, (samples, 8, 2), generator=generator)


def test_graphs_in_one_list_are_exact(unchecked):
    torch.manual_seed(0)
    norms = GradientNorms(Graphs().double().eval(), norm="per-tensor")
    for samples, seed in ((5, 0), (5, 1), (2, 2), (1, 3), (8, 4)):
        check(norms, graphs(samples, seed))


@pytest.mark.parametrize(("kind", "off"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_more_samples_than_powers_of_two_are_told_apart(kind, off, unchecked):
    torch.manual_seed(0)
    model, x = Routed(by_mask).to(kind).eval(), words(66).to(kind)
    norms = GradientNorms(model)
    torch.testing.assert_close(norms(x), reference_norms(model, x), rtol=off, atol=0)


class Sorted(nn.Module):
    """A layer that sees the samples in the order of what they hold, between two others."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.enter, self.layer, self.shape = nn.Linear(24, 24), layer, shape
        self.head = nn.LazyLinear(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        order = x[:, 0].argsort()
        y = self.layer(self.enter(x)[order].unflatten(1, self.shape))
        return self.head(y.flatten(1).tanh()[order.argsort()])


class Own(nn.Module):
    """A function of the data and of parameters of some shapes."""

    def __init__(self, run, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.p = nn.ParameterList(nn.Parameter(torch.rand(s) + 0.5) for s in shapes)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x, *self.p)


class Read(nn.Module):
    """Whole sequences, read by a recurrent layer that starts from nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(6, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


LAYERS = {
    "recurrent": (Read(), (4, 6)),
    "linear": (nn.Linear(6, 5), (4, 6)),
    "bilinear": (Own(lambda x, w: F.bilinear(x, x.tanh(), w), (3, 6, 6)), (4, 6)),
    "matmul": (Own(lambda x, w: x @ w, (6, 5)), (4, 6)),
    "addmm": (Own(lambda x, b, w: torch.addmm(b, x, w), (5,), (24, 5)), (24,)),
    "embedding": (Own(lambda x, w: F.embedding(x.abs().long() % 3, w), (3, 2)), (24,)),
    "table": (Own(lambda x, w: w[x.abs().long() % 3] * x[..., None], (3, 2)), (24,)),
    "layer norm": (nn.LayerNorm((2, 6)), (2, 2, 6)),
    "rms norm": (nn.RMSNorm(6), (4, 6)),
    "batch norm": (nn.BatchNorm2d(3), (3, 2, 4)),
    "group norm": (nn.GroupNorm(2, 4), (4, 6)),
    "instance norm": (nn.InstanceNorm1d(4, affine=True), (4, 6)),
    "prelu": (nn.PReLU(4), (4, 6)),
    "conv1d": (nn.Conv1d(4, 3, 3, padding=1), (4, 6)),
    "conv2d": (nn.Conv2d(2, 3, 2), (2, 3, 4)),
    "conv3d": (nn.Conv3d(1, 2, 2), (1, 2, 3, 4)),
    "transposed": (nn.ConvTranspose2d(2, 3, 2), (2, 3, 4)),
    "shift of positions": (Own(lambda x, p: p + x, (1, 4, 6)), (4, 6)),
    "shift of features": (Own(lambda x, p: x.transpose(0, 1).sub(p), (6,)), (4, 6)),
    "one scale": (Own(lambda x, p: x * p, ()), (4, 6)),
    "power": (Own(lambda x, p: (x.abs() + 0.1).pow(p), (4, 1)), (4, 6)),
    "choice": (Own(lambda x, p: torch.where(x[..., :1] > 0, x, p), (6,)), (4, 6)),
    "quotient": (Own(lambda x, p: x[:, :1] / p, (1, 4, 6)), (4, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_rules_hold_for_samples_in_any_order(name, unchecked):
    torch.manual_seed(0)
    layer, shape = LAYERS[name]
    if name == "shift of features":
        layer = nn.Sequential(layer, Own(lambda x: x.transpose(0, 1)))
    model = Sorted(layer, shape)
    x = torch.randn(7, 24)
    model(x)
    model = model.double().eval()
    norms = GradientNorms(model, norm="per-tensor")
    check(norms, x.double())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Own(lambda x, w: torch.stack([F.conv2d(one, w) for one in x]), (2, 2, 2, 2)), (2, 3, 4)),
        (Own(lambda x, w: (w @ x.t()).t(), (5, 24)), (24,)),
        (Own(lambda x, w: torch.stack([w @ one for one in x]), (4, 4)), (4, 6)),
        (Own(lambda x, w: torch.stack([F.linear(one, w) for one in x]), (24, 24)), (24,)),
    ],
    ids=["single images", "samples last", "matrix first", "single vectors"],
)
def test_what_has_no_rows_of_samples_is_exact(layer, shape, unchecked):
    torch.manual_seed(0)
    model, x = Sorted(layer, shape), torch.randn(7, 24)
    model(x)
    check(GradientNorms(model.double().eval(), norm="per-tensor"), x.double())

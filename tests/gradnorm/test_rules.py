"""Every rule against autograd, for shapes drawn at random."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import NETS
from torch import nn

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.measure import routes
from steepest.gradnorm.measure.convolved import Convolved
from steepest.gradnorm.measure.patches import Geometry
from steepest.gradnorm.rules import RULES, rule
from steepest.gradnorm.rules.linear import linear
from steepest.modules.losses import resolve

SPATIAL = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
INSTANCE = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
NORMS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
few = settings(max_examples=25, deadline=None, derandomize=True)


class Summed(nn.Module):
    """One layer, then two logits that depend on all its outputs in different ways."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *x):
        y = self.layer(*x).flatten(1)
        ramp = torch.linspace(-1, 1, y.shape[1], dtype=y.dtype)
        return torch.stack([(y * ramp).sum(1), (y.square() * ramp.flip(0)).sum(1)], dim=1)


def check(layer: nn.Module, *x: torch.Tensor) -> None:
    """Compare with autograd; neither the whole model nor the layer may run sample by sample."""
    model = Summed(layer).double().eval()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        # Drawn anew: weights of the global generator would make a failure unrepeatable.
        for p in model.parameters():
            p.copy_(0.3 * torch.randn(p.shape, generator=random, dtype=p.dtype))
    found = by_rules_alone(model, *x)
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-12)


def by_rules_alone(model, *x):
    engine = Engine(model)
    _, (squares,) = engine.squared_norms(x, resolve("entropy", None, len(x[0])))
    assert not engine.slow_names()
    assert "sample by sample" not in engine.routes.taken.values()
    return squares.sqrt()


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@few
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.booleans())
def test_linear(samples, inputs, outputs, extra_dims, bias):
    x = normal(samples, *[3] * extra_dims, inputs)
    check(nn.Linear(inputs, outputs, bias=bias), x)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # only a copy
@pytest.mark.parametrize("route", ["together", "vendor", "patches"])
@few
@given(st.data())
def test_convolution(route, data):
    dims = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 3))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(dims)]
    stride = [data.draw(st.integers(1, 2)) for _ in range(dims)]
    dilation = [data.draw(st.integers(1, 2)) for _ in range(dims)]
    padding = data.draw(st.sampled_from(["valid", "same", 0, 1, 2]))
    mode = data.draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
    if padding == "same":
        stride = [1] * dims
    layer = SPATIAL[dims](
        groups * data.draw(st.integers(1, 2)),
        groups * data.draw(st.integers(1, 2)),
        tuple(kernel),
        stride=tuple(stride),
        dilation=tuple(dilation),
        padding=padding,
        padding_mode=mode,
        groups=groups,
        bias=data.draw(st.booleans()),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes.Routes, "pick", prefer(route))
        check(layer, normal(2, layer.in_channels, *[6] * dims))


def prefer(route):
    """Take one route wherever it can be taken."""
    honest = routes.Routes.pick

    def pick(self, key, costs, *rest):
        return honest(self, key, {route: 0.0} if route in costs else costs, *rest)

    return pick


@pytest.mark.parametrize("route", ["together", "vendor", "patches"])
@few
@given(st.data())
def test_transposed_convolution(route, data):
    dims = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 2))

    def each(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(dims))

    stride, dilation = each(1, 3), each(1, 2)
    limits = [max(a, b) - 1 for a, b in zip(stride, dilation, strict=True)]
    layer = TRANSPOSED[dims](
        groups * data.draw(st.integers(1, 2)),
        groups * data.draw(st.integers(1, 2)),
        each(1, 3),
        stride=stride,
        padding=each(0, 1),
        output_padding=tuple(data.draw(st.integers(0, limit)) for limit in limits),
        dilation=dilation,
        groups=groups,
        bias=data.draw(st.booleans()),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes.Routes, "pick", prefer(route))
        check(layer, normal(2, layer.in_channels, *[4] * dims))


@few
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_instance_norm(dims, channels, samples, tracked):
    layer = INSTANCE[dims](channels, affine=True, track_running_stats=tracked)
    check(layer, normal(samples, channels, *[3] * dims))


@few
@given(st.integers(1, 2), st.integers(0, 2))
def test_rms_norm(normalised, extra_dims):
    shape = [4] * normalised
    check(nn.RMSNorm(shape), normal(2, *[3] * extra_dims, *shape))


@few
@given(st.integers(0, 2), st.integers(1, 3), st.booleans())
def test_prelu(dims, channels, each):
    x = normal(3, channels, *[3] * dims)
    check(nn.PReLU(channels if each else 1), x)


@few
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.booleans())
def test_bilinear(left, right, outputs, extra_dims, bias):
    between = [3] * extra_dims
    layer = nn.Bilinear(left, right, outputs, bias=bias)
    check(layer, normal(2, *between, left), normal(2, *between, right).flip(0))


class Einsum(nn.Module):
    """A sum of products of a parameter with data [N, ...]."""

    def __init__(self, equation: str, shape: list[int], *, swapped: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))
        self.equation, self.swapped = equation, swapped

    def forward(self, x):
        factors = (self.weight, x) if self.swapped else (x, self.weight)
        return torch.einsum(self.equation, *factors)[..., None]


@few
@given(st.data())
def test_einsum(data):
    where = {c: data.draw(st.sampled_from(["aw", "ao", "wo", "awo"])) for c in "defg"}
    where["d"] = data.draw(st.sampled_from(["aw", "wo", "awo"]))  # The weight has one at least.
    a, w, out = (data.draw(st.permutations([c for c in "defg" if t in where[c]])) for t in "awo")
    sizes = {c: data.draw(st.integers(1, 3)) for c in "defg"}
    swapped, dots = data.draw(st.booleans()), data.draw(st.booleans())
    a, w, out = ("".join(letters) for letters in (a, w, out))
    factors = [f"n...{a}" if dots else f"n{a}", w]
    equation = f"{', '.join(factors[::-1] if swapped else factors)} -> n{'...' * dots}{out}"
    x = normal(3, *[2] * dots, *(sizes[c] for c in a))
    check(Einsum(equation, [sizes[c] for c in w], swapped=swapped), x)


@pytest.mark.parametrize(
    ("equation", "shape"),
    [
        ("nab,b->nb", [4]),  # A letter of the data alone.
        ("nab,bc->na", [4, 2]),  # A letter of the parameter alone.
        ("naa,b->nab", [4]),  # A diagonal.
        ("nab,cb->nac", [2, 1]),  # A single entry for all.
        ("npq,qr", [4, 2]),  # The result is left open.
        ("nab,...b->n...a", [2, 4]),  # Dimensions of the parameter without letters.
    ],
)
def test_einsum_that_has_no_rule_is_exact(equation, shape):
    x = normal(3, 4, 4)
    model = Summed(Einsum(equation, shape)).double()
    with torch.no_grad():
        model.layer.weight.copy_(normal(*shape))
    found = steepest.gradient_norms(model.eval(), x)
    torch.testing.assert_close(found, reference_norms(model, x), rtol=1e-8, atol=0)


def test_einsum_of_a_weight_with_another_order_of_letters_adds_up_with_other_uses():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, 2, 4))

        def forward(self, x):
            return torch.einsum("nab,cab->nca", x, self.weight).mean(2) + self.weight.mean((1, 2))

    check(Twice(), normal(3, 2, 4))


@few
@given(st.integers(1, 6), st.sampled_from(["sum", "mean"]), st.sampled_from([None, 0, 3]))
def test_embedding_bag(length, mode, padding):
    ids = torch.randint(0, 5, (3, length), generator=torch.Generator().manual_seed(length))
    check(nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding), ids)


@few
@given(st.booleans(), st.booleans(), st.booleans(), st.integers(1, 2))
def test_attention(batch_first, separate, bias, heads):
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"kdim": 3, "vdim": 5} if separate else {}
            self.inner = nn.MultiheadAttention(
                4, heads, bias=bias, add_bias_kv=False, batch_first=batch_first, **sizes
            )

        def forward(self, q, k, v):
            if not batch_first:
                q, k, v = (t.transpose(0, 1) for t in (q, k, v))
            out, _ = self.inner(q, k, v)
            return out if batch_first else out.transpose(0, 1)

    sizes = (3, 5) if separate else (4, 4)
    check(Attention(), normal(3, 2, 4), normal(3, 5, sizes[0]), normal(3, 5, sizes[1]).sin())


@few
@given(st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_self_attention(length, samples, batch_first):
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(4, 2, batch_first=batch_first)

        def forward(self, x):
            x = x if batch_first else x.transpose(0, 1)
            out, _ = self.inner(x, x, x, need_weights=False)
            return out if batch_first else out.transpose(0, 1)

    check(Attention(), normal(samples, length, 4))


@few
@given(st.integers(0, 3), st.integers(2, 4), st.integers(1, 3))
def test_batch_norm(dims, channels, samples):
    layer = NORMS[dims](channels)
    layer.running_mean.copy_(torch.linspace(-1, 1, channels))
    layer.running_var.copy_(torch.linspace(0.5, 2, channels))
    check(layer, normal(samples, channels, *[3] * dims))


@few
@given(st.integers(0, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_group_norm(dims, groups, per_group, samples):
    x = normal(samples, groups * per_group, *[4] * dims)
    if groups * per_group == groups and dims == 0:
        x = x[..., None].expand(-1, -1, 2)
    check(nn.GroupNorm(groups, groups * per_group), x)


@few
@given(st.integers(1, 2), st.integers(0, 2), st.booleans())
def test_layer_norm(normalised, extra_dims, bias):
    shape = [4] * normalised
    check(nn.LayerNorm(shape, bias=bias), normal(2, *[3] * extra_dims, *shape))


@few
@given(st.integers(1, 6), st.integers(0, 2), st.sampled_from([None, 0, 3]))
def test_embedding_adds_up_repeated_words(length, extra_dims, padding):
    shape = (3, *[2] * extra_dims, length)
    ids = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(length))
    check(nn.Embedding(5, 3, padding_idx=padding), ids)


def test_tiny_scratch_space_changes_nothing(monkeypatch):
    monkeypatch.setattr(routes, "CHUNK_FLOATS", 1)
    check(nn.Conv2d(2, 3, 3), normal(4, 2, 6, 6))
    check(nn.Conv2d(8, 8, 1), normal(4, 8, 2, 2))
    check(nn.Linear(4, 4), normal(4, 3, 4))
    check(nn.Embedding(5, 3), torch.randint(0, 5, (4, 6)))


def test_frozen_parameters_do_not_count():
    layer = nn.Conv2d(2, 3, 3)
    layer.weight.requires_grad_(False)
    check(layer, normal(3, 2, 6, 6))


@pytest.mark.parametrize("name", sorted(NETS.keys() - {"checkpointed", "lstm"}))
def test_no_net_takes_the_slow_path(name):
    net, draw = NETS[name]
    x = draw(3)
    by_rules_alone(net().double().eval(), x.double() if x.is_floating_point() else x)


def test_sparse_embedding_gradients_are_measured():
    check(nn.Embedding(5, 3, sparse=True), torch.tensor([[1, 1, 2], [0, 3, 3]]))


def test_a_subclass_is_measured_by_the_functions_that_it_calls():
    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    check(Doubled(4, 3), normal(3, 4))


def test_a_second_rule_for_a_function_is_refused():
    with pytest.raises(ValueError, match="two rules for linear"):
        rule(nn.functional.linear, arguments="input weight bias")(linear)


def test_every_rule_says_what_it_does():
    for found in RULES.values():
        assert found.measure.__doc__


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "groups", "route"),
    [
        (256, 8, 3, 1, "patches"),
        (64, 32, 3, 1, "vendor"),
        (3, 32, 3, 1, "patches"),
        (64, 8, 3, 2, "patches"),
    ],
)
def test_the_cheapest_route_depends_on_the_map(channels, side, kernel, groups, route):
    geometry = Geometry((kernel,) * 2, (1, 1), (1, 1), ((1, 1), (1, 1)), groups)
    x, g = torch.empty(1, 1, channels, side, side), torch.empty(1, 1, 64, side, side)
    shape = torch.Size([64, channels // groups, kernel, kernel])
    costs = Convolved(x, g, geometry, shape)._costs(fused=False)
    assert min(costs, key=costs.__getitem__) == route

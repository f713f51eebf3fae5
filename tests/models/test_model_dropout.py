from __future__ import annotations

import pytest
import torch
from torch import nn

from steepest import gradient_norms
from steepest.gradnorm.reference import reference_norms
from steepest.models import MODELS, build, names
from steepest.models.dropout import Rates, place_dropout
from steepest.models.resnet import BasicBlock, Bottleneck
from steepest.models.vit_s16 import EncoderLayer, VisionTransformer


def sketch(name, **options):
    """Build a model that has shapes but no weights."""
    with torch.device("meta"):
        return MODELS.get(name)(5, 3, **options)


def dropouts(model):
    return {n: m.p for n, m in model.named_modules() if isinstance(m, nn.Dropout)}


@pytest.mark.parametrize("name", sorted(set(names()) - {"vgg16", "vgg16-bn"}))
def test_models_drop_nothing_unless_told(name):
    assert dropouts(sketch(name)) == {}


DROPPING = sorted(set(names()) - {"linear"})  # one layer, with nothing to drop between


def placements():
    for name in DROPPING:
        for placement in ("none", "head", "blocks"):
            if not name.startswith("vgg") or placement != "blocks":
                yield name, placement


@pytest.mark.parametrize(("name", "placement"), list(placements()))
def test_the_placement_changes_no_name_and_no_shape(name, placement):
    plain, dropping = sketch(name).state_dict(), sketch(name, dropout=placement).state_dict()
    assert list(plain) == list(dropping)
    assert all(plain[key].shape == dropping[key].shape for key in plain)


@pytest.mark.parametrize("name", sorted(set(DROPPING) - {"vgg16", "vgg16-bn"}))
def test_at_the_head_half_is_dropped_once(name):
    assert dropouts(sketch(name, dropout="head")) == {"dropout": 0.5}
    assert dropouts(sketch(name, dropout="head", dropout_rate=0.2)) == {"dropout": 0.2}


def test_vgg_drops_after_both_hidden_layers():
    assert dropouts(sketch("vgg16")) == {"classifier.2": 0.5, "classifier.5": 0.5}
    assert dropouts(sketch("vgg16-bn", dropout="head", dropout_rate=0.1)) == {
        "classifier.2": 0.1,
        "classifier.5": 0.1,
    }
    assert dropouts(sketch("vgg16", dropout="none")) == {}


@pytest.mark.parametrize(
    ("name", "per_block", "blocks"),
    [
        ("cifar-resnet18", 2, 8),
        ("efficientnet-lite0", 2, 16),
        ("resnet50", 2, 16),
        ("resnet3d-18", 2, 8),
        ("drn-d-22", 2, 8),
        ("small-cnn", 1, 3),
        ("mlp", 1, 2),
        ("vit-s16", 3, 12),
    ],
)
def test_in_the_blocks_three_tenths_are_dropped(name, per_block, blocks):
    found = dropouts(sketch(name, dropout="blocks"))
    assert len(found) == per_block * blocks
    assert set(found.values()) == {0.3}
    assert "dropout" not in found
    assert set(dropouts(sketch(name, dropout="blocks", dropout_rate=0.0)).values()) == {0.0}


def test_rates_by_placement():
    assert place_dropout("none", None) == Rates(None, None)
    assert place_dropout("head", None) == Rates(0.5, None)
    assert place_dropout("blocks", None) == Rates(None, 0.3)
    assert place_dropout("blocks", 0) == Rates(None, 0)


class Zero(nn.Module):
    """A dropout that is easy to recognise."""

    def forward(self, x):
        return torch.zeros_like(x)


class Same(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(("kind", "width"), [(BasicBlock, 4), (Bottleneck, 1)])
def test_a_block_drops_before_the_sum_but_never_on_the_shortcut(kind, width):
    block = kind(4, width, 1, dropout=0.5).eval()
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    whole = block(x)
    block.dropout2 = Zero()
    assert torch.equal(block(x), x.relu())
    block.dropout2 = Same()
    torch.testing.assert_close(block(x), whole)


def test_a_block_drops_what_its_last_convolution_reads():
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    for kind, width, last in ((BasicBlock, 4, "conv2"), (Bottleneck, 1, "conv3")):
        block = kind(4, width, 1, dropout=0.5).eval()
        block.dropout1 = Zero()
        read = []
        block.get_submodule(last).register_forward_pre_hook(lambda _, a, r=read: r.append(a[0]))
        dropped = []
        block.dropout1.register_forward_pre_hook(lambda _, a, d=dropped: d.append(a[0]))
        block(x)
        assert not read[0].any()
        assert (dropped[0] >= 0).all()
        assert dropped[0].any()


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "placement", "shape"),
    [
        ("cifar-resnet18", "head", (2, 3, 8, 8)),
        ("cifar-resnet18", "blocks", (2, 3, 8, 8)),
        ("resnet3d-18", "blocks", (2, 3, 8, 8, 8)),
        ("drn-d-22", "head", (2, 3, 16, 16)),
        ("small-cnn", "blocks", (2, 3, 8, 8)),
        ("small-cnn", "head", (2, 3, 8, 8)),
    ],
)
def test_dropout_is_inert_in_eval_mode_and_random_in_training(name, placement, shape):
    x = draw(*shape)
    plain = build(name, 5, 3, 0).eval()
    model = build(name, 5, 3, 0, {"dropout": placement}).eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        assert torch.equal(model(x), plain(x))
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.train()
        assert not torch.equal(model(x), model(x))


@pytest.mark.parametrize("rates", [Rates(head=0.5), Rates(blocks=0.3)])
def test_a_transformer_drops_where_it_is_told(rates):
    model = VisionTransformer(
        5, 1, image_size=32, width=24, depth=2, heads=3, mlp_width=48, dropout=rates
    )
    x = draw(2, 1, 32, 32)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        assert torch.equal(model.eval()(x), model(x))
        assert not torch.equal(model.train()(x), model(x))


def test_a_transformer_drops_what_its_attention_adds():
    layer = EncoderLayer(8, 2, 16, 0.3).eval()
    x = draw(2, 3, 8)
    layer.dropout, layer.mlp[4] = Zero(), Zero()
    assert torch.equal(layer(x), x)


@pytest.mark.parametrize("placement", ["head", "blocks"])
def test_gradient_norms_of_a_model_with_dropout_are_exact(placement):
    options = {"dropout": placement, "dropout_rate": 0.4}
    model = build("small-cnn", 5, 1, 0, options).double().eval()
    x = draw(3, 1, 8, 8).double()
    torch.testing.assert_close(gradient_norms(model, x), reference_norms(model, x))
    assert gradient_norms(model, x).min() > 0

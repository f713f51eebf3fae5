from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from steepest import gradient_norms
from steepest.core.seeds import derive
from steepest.errors import InputError, UnknownNameError
from steepest.gradnorm.reference import reference_norms
from steepest.models import build
from steepest.models.base import MODELS, draw_convolutions
from steepest.models.drn_d_22 import DrnD22
from steepest.models.resnet import ResNet3d18
from steepest.models.vit_s16 import VisionTransformer


def sketch(name, classes, channels=3, **options):
    """Build a model that has shapes but no weights, so even the big ones cost nothing."""
    with torch.device("meta"):
        return MODELS.get(name)(classes, channels, **options).eval()


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def shapes_of(model):
    return {name: list(value.shape) for name, value in model.state_dict().items()}


def count(model, *, trainable=False):
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable)


def sizes_on_the_way(model, layers, x):
    seen = []
    for layer in map(model.get_submodule, layers):
        layer.register_forward_hook(lambda *a: seen.append(list(a[2].shape[1:])))
    model(x)
    return seen


@pytest.mark.parametrize(
    ("name", "classes", "channels", "size", "tensors"),
    [
        ("cifar-resnet18", 101, 3, 11_220_645, 62),
        ("cifar-resnet50", 10, 3, 23_520_842, 161),
        ("cifar-resnet50", 100, 3, 23_705_252, 161),
        ("resnet18", 1000, 3, 11_689_512, 62),
        ("resnet50", 1000, 3, 25_557_032, 161),
        ("vgg16", 1000, 3, 138_357_544, 32),
        ("vgg16-bn", 1000, 3, 138_357_544 + 8_448, 58),
        ("resnet3d-18", 50, 1, 33_165_426, 62),
        ("vit-s16", 1000, 3, 22_050_664, 152),
        ("efficientnet-lite0", 1000, 3, 4_652_008, 149),
        ("small-cnn", 10, 3, 24_346, 11),
    ],
)
def test_models_have_the_known_sizes(name, classes, channels, size, tensors):
    model = sketch(name, classes, channels)
    assert count(model) == count(model, trainable=True) == size
    assert len(list(model.parameters())) == tensors


ENCODER = "encoder.layers.encoder_layer"
KNOWN_SHAPES = {
    "cifar-resnet50": {"conv1.weight": [64, 3, 3, 3], "layer4.2.conv3.weight": [2048, 512, 1, 1]},
    "resnet18": {"conv1.weight": [64, 3, 7, 7], "layer2.0.downsample.1.running_var": [128]},
    "resnet50": {"layer3.5.conv1.weight": [256, 1024, 1, 1], "fc.weight": [7, 2048]},
    "resnet3d-18": {"conv1.weight": [64, 3, 3, 3, 3], "layer4.0.downsample.1.bias": [512]},
    "vgg16": {
        "features.28.bias": [512],
        "classifier.0.weight": [4096, 25088],
        "classifier.6.weight": [7, 4096],
    },
    "vgg16-bn": {"features.1.running_mean": [64], "features.41.running_var": [512]},
    "drn-d-22": {
        "base.0.0.weight": [16, 3, 7, 7],
        "base.3.0.downsample.0.weight": [64, 32, 1, 1],
        "base.6.1.conv2.weight": [512, 512, 3, 3],
        "base.8.1.running_mean": [512],
        "seg.bias": [7],
        "up.weight": [7, 1, 16, 16],
    },
    "vit-s16": {
        "class_token": [1, 1, 384],
        "conv_proj.weight": [384, 3, 16, 16],
        "encoder.pos_embedding": [1, 197, 384],
        f"{ENCODER}_0.ln_1.weight": [384],
        f"{ENCODER}_11.self_attention.in_proj_weight": [1152, 384],
        f"{ENCODER}_11.mlp.0.weight": [1536, 384],
        f"{ENCODER}_11.mlp.3.weight": [384, 1536],
        "encoder.ln.bias": [384],
        "heads.head.weight": [7, 384],
    },
}


@pytest.mark.parametrize("name", KNOWN_SHAPES)
def test_weights_have_the_names_and_shapes_of_published_ones(name):
    assert KNOWN_SHAPES[name].items() <= shapes_of(sketch(name, 7)).items()


@pytest.mark.parametrize(
    ("name", "shape", "out"),
    [
        ("cifar-resnet50", [2, 4, 32, 32], [2, 7]),
        ("resnet18", [2, 4, 64, 96], [2, 7]),
        ("vgg16", [2, 4, 32, 32], [2, 7]),
        ("vgg16-bn", [2, 4, 224, 224], [2, 7]),
        ("resnet3d-18", [2, 4, 16, 16, 16], [2, 7]),
        ("vit-s16", [2, 4, 224, 224], [2, 7]),
        ("efficientnet-lite0", [2, 4, 33, 70], [2, 7]),
        ("drn-d-22", [2, 4, 64, 48], [2, 7, 64, 48]),
        ("drn-d-22", [2, 4, 61, 50], [2, 7, 61, 50]),
        ("drn-d-22", [2, 4, 1, 9], [2, 7, 1, 9]),
    ],
)
def test_classes_and_channels_decide_the_shapes(name, shape, out):
    assert list(sketch(name, 7, 4)(torch.empty(shape, device="meta")).shape) == out


@pytest.mark.parametrize(
    ("name", "side", "maps"),
    [
        ("cifar-resnet50", 32, [(256, 32), (512, 16), (1024, 8), (2048, 4)]),
        ("resnet18", 224, [(64, 56), (128, 28), (256, 14), (512, 7)]),
        ("resnet50", 224, [(256, 56), (512, 28), (1024, 14), (2048, 7)]),
    ],
)
def test_stages_halve_the_image(name, side, maps):
    stages = ["layer1", "layer2", "layer3", "layer4"]
    seen = sizes_on_the_way(sketch(name, 7), stages, torch.empty(1, 3, side, side, device="meta"))
    assert seen == [[channels, size, size] for channels, size in maps]


@pytest.mark.parametrize(
    ("stem", "sides"), [("s1", [32, 4]), ("s2", [16, 2]), ("imagenet", [8, 1])]
)
def test_the_stem_decides_the_resolution_of_volumes(stem, sides):
    volume = torch.empty(1, 1, 32, 32, 32, device="meta")
    model = sketch("resnet3d-18", 50, 1, stem=stem)
    seen = sizes_on_the_way(model, ["layer1", "layer4"], volume)
    assert [size[1:] for size in seen] == [[side] * 3 for side in sides]
    assert model.get_parameter("conv1.weight").shape[-1] == (7 if stem == "imagenet" else 3)
    if stem == "s2":
        assert sizes_on_the_way(sketch("resnet3d-18", 50, 1), ["layer4"], volume) == [seen[1]]


def test_an_unknown_stem_says_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown stem 's3': .*known: imagenet, s1, s2"):
        ResNet3d18(50, stem="s3")


@pytest.mark.parametrize("name", ["cifar-resnet18", "cifar-resnet50"])
def test_nets_for_small_images_keep_the_layers_own_first_weights(name):
    model = build(name, 10, 3, seed=5)
    first = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(5, "initial weights"))
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
                module.reset_parameters()
    assert all(torch.equal(first[key], value) for key, value in model.state_dict().items())


def test_convolutions_are_drawn_by_their_fan_out():
    model = nn.Sequential(nn.Conv2d(32, 128, 3), nn.Linear(4, 4))
    line = model[1].weight.detach().clone()
    draw_convolutions(model)
    assert model[0].weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.03)
    assert not model[0].bias.any()
    assert torch.equal(model[1].weight, line)


@pytest.mark.parametrize(
    ("name", "block"),
    [("resnet18", "layer2.1"), ("resnet50", "layer2.1"), ("drn-d-22", "base.4.1")],
)
def test_nets_for_photographs_draw_their_convolutions_by_fan_out(name, block):
    weight = build(name, 10, 3, seed=0).get_parameter(f"{block}.conv2.weight")
    assert weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.03)


def test_vgg16_draws_its_linear_layers_narrowly_and_drops_half_between_them(monkeypatch):
    drawn = []
    monkeypatch.setattr(nn.init, "normal_", lambda t, *spread: drawn.append((len(t), *spread)))
    classifier = sketch("vgg16", 10).classifier
    assert drawn == [(4096, 0.0, 0.01), (4096, 0.0, 0.01), (10, 0.0, 0.01)]
    kinds = [type(module).__name__ for module in classifier]
    assert kinds == ["Linear", "ReLU", "Dropout"] * 2 + ["Linear"]
    assert classifier[2].p == classifier[5].p == 0.5


@pytest.mark.parametrize("name", ["cifar-resnet50", "drn-d-22", "resnet18", "vit-s16"])
def test_the_seed_alone_decides_the_weights(name):
    first, again, other = (build(name, 5, 2, seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_drn_trains_all_but_the_upsampling():
    model = sketch("drn-d-22", 19)
    assert count(model.base) == 15_880_752
    assert count(model, trainable=True) == 15_890_499
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["up.weight"]


def test_drn_classifies_an_eighth_of_the_resolution():
    model = sketch("drn-d-22", 19)
    layers = [f"base.{i}" for i in range(9)]
    seen = sizes_on_the_way(model, layers, torch.empty(1, 3, 688, 688, device="meta"))
    assert [size[1] for size in seen] == [688, 688, 344, 172, 86, 86, 86, 86, 86]
    assert [size[0] for size in seen] == [16, 16, 32, 64, 128, 256, 512, 512, 512]


def test_drn_dilates_instead_of_striding():
    dilations = [
        {m.dilation[0] for m in layer.modules() if getattr(m, "kernel_size", (1,))[0] > 1}
        for layer in sketch("drn-d-22", 19).base
    ]
    assert dilations == [{1}, {1}, {1}, {1}, {1}, {2}, {4}, {2}, {1}]


def test_the_frozen_upsampling_is_bilinear_inside_and_fades_at_the_border():
    up = DrnD22(2).up
    ramp = torch.arange(6.0)[:, None] * 3 - torch.arange(5.0) + 1
    x = torch.stack([ramp, ramp.flip(0) ** 2])[None]
    got, wanted = up(x), F.interpolate(x, scale_factor=8, mode="bilinear", align_corners=False)
    inside = (..., slice(4, -4), slice(4, -4))
    torch.testing.assert_close(got[inside], wanted[inside])
    ones = up(torch.ones(1, 2, 3, 3))[0, 0]
    assert torch.equal(ones[4:-4, 4:-4], torch.ones(16, 16))
    assert ones[0, 12].item() == pytest.approx(9 / 16)


def test_drn_returns_logits_and_cuts_what_is_too_much():
    model = build("drn-d-22", 3, 1, seed=0).eval()
    x = draw(1, 1, 13, 10)
    with torch.no_grad():
        logits = model(x)
        whole = model.up(model.seg(model.base(x)))
    assert list(whole.shape) == [1, 3, 16, 16]
    assert torch.equal(logits, whole[..., :13, :10])
    assert not torch.allclose(logits.exp().sum(1), torch.ones(1, 13, 10))


@pytest.fixture
def small_vit():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = VisionTransformer(5, 1, image_size=32, width=24, depth=2, heads=3, mlp_width=48)
    return model.eval()


def test_a_transformer_sees_patches_and_their_positions(small_vit):
    x, order = draw(3, 1, 32, 32), [2, 0, 3, 1]
    patches = [x[..., i : i + 16, j : j + 16] for i in (0, 16) for j in (0, 16)]
    a, b, c, d = (patches[i] for i in order)
    moved = torch.cat([torch.cat([a, b], -1), torch.cat([c, d], -1)], -2)
    with torch.no_grad():
        before, after = small_vit(x), small_vit(moved)
        positions = small_vit.encoder.pos_embedding
        positions[:, 1:] = positions[:, 1:][:, order].clone()
        torch.testing.assert_close(small_vit(moved), before)
    assert (after - before).abs().max() > 1e-4


def test_gradient_norms_of_a_transformer_are_exact(small_vit):
    x = draw(3, 1, 32, 32)
    torch.testing.assert_close(gradient_norms(small_vit, x), reference_norms(small_vit, x))


def test_a_transformer_refuses_images_of_another_size(small_vit):
    with pytest.raises(InputError, match="images are 32x48, not 32x32: resize, or set image_size"):
        small_vit(torch.zeros(1, 1, 32, 48))


@pytest.mark.parametrize("image_size", [0, 40])
def test_a_transformer_needs_whole_patches(image_size):
    with pytest.raises(InputError, match=f"multiple of 16, not {image_size}"):
        MODELS.get("vit-s16")(10, 3, image_size=image_size)


def test_vit_s16_takes_another_image_size():
    model = sketch("vit-s16", 10, image_size=96)
    assert shapes_of(model)["encoder.pos_embedding"] == [1, 37, 384]
    assert list(model(torch.empty(2, 3, 96, 96, device="meta")).shape) == [2, 10]

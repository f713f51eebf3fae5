from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from steepest.errors import InputError, UnknownNameError
from steepest.models import build, names
from steepest.models.factory import find_made
from steepest.models.resnet import BasicBlock, Bottleneck


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("classes", "size"), [(10, 11_173_962), (100, 11_220_132)])
def test_cifar_resnet18_has_the_known_size(classes, size):
    model = build("cifar-resnet18", classes, 3, seed=0)
    assert count(model) == size
    assert len(list(model.parameters())) == 62


def test_cifar_resnet18_has_the_names_of_torchvision():
    state = build("cifar-resnet18", 10, 3, seed=0).state_dict()
    shapes = {name: list(value.shape) for name, value in state.items()}
    assert shapes["conv1.weight"] == [64, 3, 3, 3]
    assert shapes["layer1.0.conv1.weight"] == [64, 64, 3, 3]
    assert shapes["layer2.0.downsample.0.weight"] == [128, 64, 1, 1]
    assert shapes["layer4.1.bn2.running_var"] == [512]
    assert shapes["fc.weight"] == [10, 512]
    assert "layer1.0.downsample.0.weight" not in shapes


def test_cifar_resnet18_halves_the_image_three_times():
    model = build("cifar-resnet18", 10, 3, seed=0).eval()
    sizes = []
    model.get_submodule("layer4").register_forward_hook(lambda *a: sizes.append(a[2].shape))
    with torch.no_grad():
        assert list(model(torch.zeros(1, 3, 32, 32)).shape) == [1, 10]
    assert list(sizes[0]) == [1, 512, 4, 4]


def test_a_block_adds_its_input_to_what_it_computes():
    block = BasicBlock(4, 4, 1).eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), x.relu())
    block = Bottleneck(4, 1, 1).eval()
    nn.init.zeros_(block.bn3.weight)
    assert torch.equal(block(x), x.relu())


def test_a_bottleneck_strides_in_the_middle():
    block = Bottleneck(8, 4, 2)
    assert [c.stride[0] for c in (block.conv1, block.conv2, block.conv3)] == [1, 2, 1]
    assert list(block(torch.zeros(2, 8, 6, 6)).shape) == [2, 16, 3, 3]


def test_a_dilated_block_sees_further_at_the_same_resolution():
    block = BasicBlock(1, 1, 1, dilation=3).eval()
    x = torch.zeros(1, 1, 21, 21)
    x[..., 10, 10] = 1.0
    with torch.no_grad():
        block.conv1.weight.fill_(1.0)
        block.conv2.weight.fill_(1.0)
    seen = block(x)[0, 0].nonzero()
    assert len(seen) == 25
    assert {int(i) - 10 for i in seen.flatten()} == {-6, -3, 0, 3, 6}


@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32), (3, 17)])
def test_small_cnn_takes_small_images_of_any_size(channels, side):
    model = build("small-cnn", 7, channels, seed=0).eval()
    assert count(model) < 100_000
    assert list(model(torch.zeros(2, channels, side, side)).shape) == [2, 7]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("name", ["small-cnn", "torch.nn:LazyConv2d"])
def test_the_global_random_state_stays_as_it_is(name):
    before = torch.get_rng_state()
    if name == "small-cnn":
        build(name, 10, 1, seed=3)
    else:
        with pytest.raises(InputError):
            build(name, 10, 1, seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_alone_decides_the_weights():
    first = build("small-cnn", 10, 1, seed=3)
    torch.rand(5)
    assert same(first, build("small-cnn", 10, 1, seed=3))
    assert not same(first, build("small-cnn", 10, 1, seed=4))


def test_names_lists_the_models_of_the_package():
    assert {"cifar-resnet18", "small-cnn"} <= set(names())


def test_an_unknown_name_says_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'small-cnn'"):
        build("small_cnn", 10, 1, seed=0)


@pytest.mark.parametrize(("classes", "channels"), [(1, 3), (10, 0)])
def test_too_few_classes_or_channels_are_refused(classes, channels):
    with pytest.raises(InputError, match="2 classes and 1 channel"):
        build("small-cnn", classes, channels, seed=0)


MODULE = """
from torch import nn
def plain():
    return nn.Linear(4, 3)
def sized(classes):
    return nn.Linear(4, classes)
def both(channels, *, classes=2):
    return nn.Linear(channels, classes)
def greedy(depth):
    return nn.Linear(4, depth)
def wrong():
    return "not a module"
def failing():
    raise RuntimeError("first line\\nsecond line")
number = 3
ready = nn.Linear(4, 3)
stubborn = nn.Linear(4, 3)
stubborn.note = (i for i in range(3))
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(MODULE)
    (tmp_path / "torn_models.py").write_text("def broken(:\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield "own_models"
    assert sys.path == path
    sys.modules.pop("own_models", None)


@pytest.mark.parametrize(
    ("factory", "shape"), [("plain", [3, 4]), ("sized", [5, 4]), ("both", [5, 2])]
)
def test_a_factory_of_the_current_directory_is_called_with_what_it_takes(
    own_module, factory, shape
):
    model = build(f"{own_module}:{factory}", 5, 2, seed=0)
    assert list(next(model.parameters()).shape) == shape
    assert same(model, build(f"{own_module}:{factory}", 5, 2, seed=0))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_models:absent", "no function or class 'absent'"),
        ("own_models:number", "no function or class 'number'"),
        ("own_models:ready", "made already: name a function"),
        ("own_models:greedy", "cannot be built: TypeError.*give --num-classes, and others by"),
        ("own_models.py:plain", "write package.module:factory, without .py"),
        ("own_models:wrong", "is a str, not a torch.nn.Module"),
        ("own_models:failing", "cannot be built: RuntimeError: first line$"),
        ("torn_models:broken", "cannot be imported: SyntaxError"),
        ("absent_module:plain", "ModuleNotFoundError.*: run the command in the folder that "),
        ("own_models:", "write package.module:factory"),
        (":plain", "write package.module:factory"),
        ("own models:plain", "write package.module:factory"),
    ],
)
def test_a_factory_that_cannot_be_used_is_one_clear_line(own_module, name, message):
    with pytest.raises(InputError, match=message) as caught:
        build(name, 5, 2, seed=0)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_ready_is_found_as_a_copy_of_its_own(own_module):
    first, second = (find_made(f"{own_module}:ready") for _ in range(2))
    assert same(first, second)
    with torch.no_grad():
        first.weight.zero_()
    assert same(second, find_made(f"{own_module}:ready"))
    assert find_made(f"{own_module}:plain") is None
    with pytest.raises(InputError, match="cannot be copied: TypeError"):
        find_made(f"{own_module}:stubborn")

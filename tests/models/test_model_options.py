from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from steepest.errors import InputError, UnknownNameError
from steepest.models import MODELS, build, check_options, names


@pytest.fixture
def own_model(monkeypatch):
    """Register a builder with options of all kinds, for one test."""
    MODELS.names()
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))

    @MODELS.register("own-model")
    def own_model(classes, channels=3, *, width: int, bias: bool = True, scale: float = 1.0):
        model = nn.Linear(width * channels, classes, bias=bias)
        model.scale = scale
        return model


def test_options_reach_the_model(own_model):
    model = build("own-model", 4, 2, 0, {"width": 5, "bias": False, "scale": 2})
    assert list(model.weight.shape) == [4, 10]
    assert model.bias is None
    assert model.scale == 2.0
    assert isinstance(model.scale, float)


def test_the_stem_of_volumes_and_the_size_of_images_are_options():
    volumes = build("resnet3d-18", 5, 1, 0, {"stem": "s1"})
    assert volumes.get_submodule("conv1").stride == (1, 1, 1)
    images = build("vit-s16", 5, 3, 0, {"image_size": 32})
    assert list(images.encoder.pos_embedding.shape) == [1, 5, 384]


def test_no_options_are_the_defaults():
    first, second, third = (build("small-cnn", 5, 1, 3, o) for o in (None, {}, {"dropout": "none"}))
    for other in (second, third):
        same = zip(first.parameters(), other.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in same)
        assert repr(first) == repr(other)


CHECKS = [build, check_options]


def check(function, name, options):
    if function is build:
        build(name, 5, 3, 0, options)
    else:
        check_options(name, options)


@pytest.mark.parametrize("function", CHECKS)
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet3d-18", {"stm": "s1"}, "unknown option of model 'resnet3d-18' 'stm'.*'stem'"),
        ("small-cnn", {"stem": "s1"}, "unknown option of .* 'stem': .*dropout, dropout_rate"),
        ("small-cnn", {"classes": 3}, "unknown option of model 'small-cnn' 'classes'"),
        ("small_cnn", {}, "did you mean 'small-cnn'"),
        ("resnet3d-18", {"stem": "s3"}, "model 'resnet3d-18' stem 's3': .*imagenet, s1, s2"),
        ("vgg16", {"dropout": "blocks"}, "dropout 'blocks': known: head, none"),
        ("vgg16", {"dropout": "all"}, "dropout 'all': known: head, none"),
    ],
)
def test_unknown_names_say_the_nearest(function, name, options, message):
    with pytest.raises(UnknownNameError, match=message) as caught:
        check(function, name, options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("function", CHECKS)
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vit-s16", {"image_size": 40}, "image_size must be a multiple of 16, not 40"),
        ("vit-s16", {"image_size": -32}, "image_size must be a multiple of 16, not -32"),
        ("vit-s16", {"image_size": 32.5}, "image_size = 32.5: expected int, not float"),
        ("vit-s16", {"image_size": True}, "image_size = True: expected int, not bool"),
        ("small-cnn", {"dropout_rate": 0.2}, "dropout_rate = 0.2 needs a place: set dropout"),
        ("small-cnn", {"dropout": "head", "dropout_rate": 1}, "below 1, not 1.0"),
        ("drn-d-22", {"dropout": "head", "dropout_rate": -0.1}, "at least 0 .* not -0.1"),
        ("resnet18", {"dropout": "head", "dropout_rate": float("nan")}, "not nan"),
        (
            "resnet50",
            {"dropout": "head", "dropout_rate": "much"},
            "dropout_rate = 'much': expected",
        ),
        ("own-model", {}, "'width' in model 'own-model' is missing"),
    ],
)
def test_values_that_cannot_be_used_are_one_clear_line(own_model, function, name, options, message):
    with pytest.raises(InputError, match=message) as caught:
        check(function, name, options)
    assert "\n" not in str(caught.value)


def test_checking_options_draws_nothing_and_passes_good_ones():
    before = torch.get_rng_state()
    for name in names():
        check_options(name, {})
        if name != "linear":
            check_options(name, {"dropout": "head", "dropout_rate": 0.1})
    check_options("nowhere.to:be_found", {"anything": 3})
    assert torch.equal(torch.get_rng_state(), before)


def test_a_builder_called_by_hand_refuses_an_unknown_placement():
    with pytest.raises(UnknownNameError, match="unknown dropout 'everywhere'"):
        MODELS.get("small-cnn")(3, dropout="everywhere")


MODULE = """
from torch import nn
def net(classes, width=4, *, bias=True):
    return nn.Linear(width, classes, bias=bias)
def open_net(classes, **rest):
    return nn.Linear(rest["depth"], classes)
def picky(width, /, classes):
    return nn.Linear(width, classes)
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "own_nets"
    sys.modules.pop("own_nets", None)


def test_a_factory_gets_the_options_that_it_has_parameters_for(own_module):
    model = build("own_nets:net", 3, 1, 0, {"width": 7, "bias": False})
    assert list(model.weight.shape) == [3, 7]
    assert model.bias is None
    assert list(build("own_nets:open_net", 3, 1, 0, {"depth": 6}).weight.shape) == [3, 6]


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        ("net", {"widht": 7}, "unknown option of model 'own_nets:net' 'widht': .*'width'"),
        ("net", {"classes": 7}, "unknown option of model 'own_nets:net' 'classes'"),
        ("open_net", {"depth": 6, "channels": 7}, "unknown option .* 'channels'"),
        ("picky", {"width": 7}, "unknown option of model 'own_nets:picky' 'width': known: none"),
    ],
)
def test_an_option_that_a_factory_has_no_parameter_for_is_an_error(
    own_module, factory, options, message
):
    with pytest.raises(UnknownNameError, match=message):
        build(f"own_nets:{factory}", 3, 1, 0, options)


def test_a_value_that_a_factory_cannot_use_is_one_clear_line(own_module):
    with pytest.raises(InputError, match="'own_nets:net' cannot be built: TypeError") as caught:
        build("own_nets:net", 3, 1, 0, {"width": "wide"})
    assert "\n" not in str(caught.value)

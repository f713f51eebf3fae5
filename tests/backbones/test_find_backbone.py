from __future__ import annotations

import sys

import pytest
import torch
from PIL import Image
from torch import nn

from steepest.errors import InputError, ModelError, UnknownNameError
from steepest.models.backbones import find_backbone
from steepest.models.backbones.photo import PhotoRecipe

OWN = """
import torch
from torch import nn

def prepare(picture):
    return torch.tensor(picture.getpixel((0, 0))).float()

def net():
    return nn.Linear(3, 2), prepare

def bare():
    return nn.Linear(3, 2)

def raises():
    raise RuntimeError("no luck")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_nets", None)


def test_the_embedded_net_says_the_same_in_its_quick_form():
    backbone = find_backbone()
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (3, 40, 50), generator=generator).byte()
    photo = Image.fromarray(pixels.permute(1, 2, 0).numpy())
    prepared = torch.stack([backbone.prepare(photo), backbone.prepare(photo.rotate(180))])
    with torch.inference_mode():
        plain = backbone.model(prepared)
    assert plain.shape == (2, 1280)
    torch.testing.assert_close(backbone.features(list(prepared)), plain, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in backbone.quick.modules())
    assert any(isinstance(m, nn.BatchNorm2d) for m in backbone.model.modules())


def test_photos_are_squeezed_into_a_square_on_the_scale_of_the_weights():
    recipe = PhotoRecipe(4, mean=(127.0, 127.0, 0.0), std=(128.0, 128.0, 1.0))
    made = recipe(Image.new("RGB", (9, 2), (255, 127, 7)))
    expected = torch.tensor([1.0, 0.0, 7.0]).reshape(3, 1, 1).expand(3, 4, 4)
    torch.testing.assert_close(made, expected)


def test_a_wrong_name_says_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'efficientnet-lite0'"):
        find_backbone("efficientnet-lite")


def test_a_function_of_ones_own_brings_its_preprocessing(own):
    backbone = find_backbone("own_nets:net")
    picture = Image.new("RGB", (1, 1), (1, 2, 3))
    rows = backbone.features([backbone.prepare(picture)])
    with torch.no_grad():
        torch.testing.assert_close(rows, backbone.model(torch.tensor([[1.0, 2.0, 3.0]])))


def test_other_code_has_another_identity(own):
    torch.manual_seed(0)
    first = find_backbone("own_nets:net")
    (own / "own_nets.py").write_text(OWN.replace("(0, 0)", "(-1, -1)"))
    sys.modules.pop("own_nets")
    torch.manual_seed(0)
    other = find_backbone("own_nets:net")
    assert first.weights == other.weights
    assert first.identity != other.identity


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_nets:nowhere", "no function 'nowhere'"),
        ("own_nets:bare", r"returns \(model, prepare\)"),
        ("own_nets:raises", "cannot be made: RuntimeError: no luck"),
        ("nowhere_nets:net", "cannot be imported"),
    ],
)
def test_what_is_no_backbone_says_what_to_write(own, name, message):
    with pytest.raises(InputError, match=message):
        find_backbone(name)


def test_a_net_must_return_a_row_for_each_sample(own):
    backbone = find_backbone("own_nets:net")
    backbone.model.forward = lambda x: x.sum()
    with pytest.raises(ModelError, match=r"must return features \[1, D\]"):
        backbone.features([torch.zeros(3)])

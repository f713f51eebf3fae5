"""Nets of timm, torchvision and open-clip: their own classes with random weights."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_stand_in import Preset, get_model, put_in

from steepest.errors import InputError, UnknownNameError
from steepest.models import save_weights
from steepest.models.backbones import find_backbone
from steepest.models.backbones.classifier import build_on_backbone
from steepest.models.backbones.photo import LibraryPhoto

TIMM = "timm:test_resnet.r160_in1k"
TINY_CLIP = {
    "embed_dim": 8,
    "vision_cfg": {"image_size": 24, "layers": 1, "width": 64, "patch_size": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 64, "width": 64, "heads": 1, "layers": 1},
}


@pytest.fixture
def libraries(monkeypatch):
    """What is imported with the stand-in is forgotten afterwards."""
    before = set(sys.modules)
    put_in(monkeypatch)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("timm", "open_clip"):
            del sys.modules[name]


def photo(width=70, height=50):
    draw = np.random.default_rng(0)
    return Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_a_photo_is_prepared_as_libraries_do():
    recipe = LibraryPhoto(16, 20, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    small = photo().resize((28, 20), Image.Resampling.BICUBIC).crop((6, 2, 22, 18))
    wanted = (np.asarray(small) / 255 - (0.5, 0.4, 0.3)) / (0.2, 0.3, 0.4)
    np.testing.assert_allclose(recipe(photo()).permute(1, 2, 0), wanted, atol=1e-5)
    tall = photo().transpose(Image.Transpose.TRANSPOSE)
    torch.testing.assert_close(recipe(tall), recipe(photo()).transpose(1, 2), atol=0.1, rtol=0)


def test_other_fits_keep_the_whole_photo():
    plain = {"mean": (0.0,) * 3, "std": (1.0,) * 3, "interpolation": "bilinear"}
    squashed = LibraryPhoto(16, 16, fit="squash", **plain)(photo())
    wanted = np.asarray(photo().resize((16, 16), Image.Resampling.BILINEAR)) / 255
    np.testing.assert_allclose(squashed.permute(1, 2, 0), wanted, atol=1e-6)
    white = Image.new("RGB", (32, 16), "white")
    padded = LibraryPhoto(16, 16, fit="border", **plain)(white)
    assert padded.shape == (3, 16, 16)
    assert padded[0, :, 8].tolist() == [0.0] * 4 + [1.0] * 8 + [0.0] * 4


def test_a_net_of_timm_has_its_configuration(libraries, tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("test_resnet.r160_in1k", num_classes=7).eval()
    save_weights(model, tmp_path / "mine.safetensors")  # With a head, which is passed over.
    found = find_backbone(f"{TIMM}@{tmp_path / 'mine.safetensors'}")
    config = timm.data.resolve_model_data_config(model)
    recipe = found.prepare
    assert (recipe.mean, recipe.std) == (config["mean"], config["std"])
    assert (recipe.side, recipe.interpolation) == (config["input_size"][1], config["interpolation"])
    assert recipe.resized == int(recipe.side / config["crop_pct"])
    x = torch.stack([found.prepare(photo()), found.prepare(photo(40, 90))])
    wanted = model.forward_head(model.forward_features(x), pre_logits=True)
    torch.testing.assert_close(found.features(list(x)), wanted.detach())


def test_files_of_another_net_are_refused(libraries, tmp_path):
    pytest.importorskip("timm")
    save_weights(torch.nn.Linear(2, 2), tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"is not of the net .*: it has no conv1"):
        find_backbone(f"{TIMM}@{tmp_path / 'other.safetensors'}")
    with pytest.raises(InputError, match="is not of the net 'efficientnet-lite0'"):
        find_backbone(str(tmp_path / "other.safetensors"))
    with pytest.raises(InputError, match="there is no file"):
        find_backbone(str(tmp_path / "nothing.safetensors"))


def test_a_file_alone_is_of_the_embedded_net(tmp_path):
    embedded = find_backbone()
    with torch.no_grad():
        embedded.model._conv_stem.weight[0].zero_()
    save_weights(embedded.model, tmp_path / "mine.safetensors")
    found = find_backbone(str(tmp_path / "mine.safetensors"))
    assert found.weights == embedded.weights != find_backbone().weights
    assert found.identity != find_backbone().identity


def test_a_net_of_open_clip_encodes_images(libraries, tmp_path):
    library = pytest.importorskip("open_clip")
    (tmp_path / "tiny-clip.json").write_text(json.dumps(TINY_CLIP))
    library.add_model_config(tmp_path / "tiny-clip.json")
    torch.manual_seed(0)
    model = library.create_model("tiny-clip").eval()
    save_weights(model, tmp_path / "clip.safetensors")
    save_weights_of_encoder(model, tmp_path / "encoder.safetensors")
    found = find_backbone(f"open-clip:tiny-clip@{tmp_path / 'clip.safetensors'}")
    assert found.prepare.mean == library.get_model_preprocess_cfg(model)["mean"]
    x = found.prepare(photo())
    assert x.shape == (3, 24, 24)
    torch.testing.assert_close(found.features([x]), model.encode_image(x[None]).detach())
    with pytest.raises(UnknownNameError, match="laion2b_s34b_b79k"):
        find_backbone("open-clip:ViT-B-32/laion2b_s34b")
    with pytest.raises(UnknownNameError, match="'ViT-B-32'"):
        find_backbone("open-clip:ViT-B32/openai")


def save_weights_of_encoder(model, path):
    save_weights(model.visual, path)


def test_a_net_of_torchvision_is_without_its_last_layer(libraries):
    found = find_backbone("torchvision:tinynet/IMAGENET1K_V1")
    assert isinstance(found.prepare, Preset)
    whole = get_model("tinynet", type("W", (), {"value": 1})).eval()
    x = found.prepare(photo())
    wanted = whole.body(x[None]).relu().mean((2, 3))
    torch.testing.assert_close(found.features([x]), wanted.detach())
    assert found.identity != find_backbone("torchvision:tinynet").identity
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        find_backbone("torchvision:resnet-50")
    with pytest.raises(UnknownNameError, match="'IMAGENET1K_V1'"):
        find_backbone("torchvision:tinynet/IMAGENET_V1")


def test_wrong_names_list_the_nearest(libraries):
    pytest.importorskip("timm")
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'") as raised:
        find_backbone("timm:resnet_50")
    assert len(str(raised.value)) < 400
    with pytest.raises(UnknownNameError, match="did you mean 'timm'"):
        find_backbone("tim:resnet50")
    with pytest.raises(UnknownNameError, match="did you mean 'efficientnet-lite0'"):
        find_backbone("efficientnet_lite")


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("timm:resnet18", "timm", "pip install timm"),
        ("torchvision:resnet18", "torchvision", "pip install torchvision"),
        ("open-clip:RN50/openai", "open_clip", "pip install open_clip_torch"),
        ("hf:google/vit", "transformers", "pip install transformers"),
        ("sentence-transformers:a", "sentence_transformers", "pip install sentence-transformers"),
        ("all-minilm-l6-v2", "transformers", "pip install 'steepest[text]'"),
    ],
)
def test_a_missing_library_names_the_command(monkeypatch, name, module, command):
    for loaded in [other for other in sys.modules if other.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [_Refuses(module), *sys.meta_path])
    with pytest.raises(InputError, match=re.escape(f"which is not installed: run {command}")):
        find_backbone(name)


class _Refuses:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_library_net_with_weights_of_ones_own_becomes_a_classifier(libraries, tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    net = timm.create_model("test_resnet", num_classes=0)
    torch.save(net.state_dict(), tmp_path / "mine.pth")
    name = f"backbone:timm:test_resnet@{tmp_path / 'mine.pth'}"
    model = build_on_backbone(name, (0.5,), (0.2,), 5, 1, 0, {"side": 32})
    assert model(torch.rand(2, 1, 16, 16)).shape == (2, 5)
    body = model.body.state_dict()
    assert all(torch.equal(value, body[key]) for key, value in net.state_dict().items())

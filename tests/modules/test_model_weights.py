from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from steepest.errors import InputError, NonFiniteError
from steepest.models import build, load_weights, save_weights
from steepest.modules.fingerprint import fingerprint


@pytest.fixture
def model():
    return build("small-cnn", 10, 1, seed=0)


@pytest.fixture
def other():
    return build("small-cnn", 10, 1, seed=1)


def test_saved_weights_come_back_exactly(tmp_path, model, other):
    model.to(memory_format=torch.channels_last)
    save_weights(model, tmp_path / "deep" / "model.safetensors")
    load_weights(other, tmp_path / "deep" / "model.safetensors")
    assert fingerprint(other) == fingerprint(model)


def test_tied_weights_are_saved(tmp_path):
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    save_weights(tied, tmp_path / "tied.safetensors")
    loaded = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    loaded[1].weight = loaded[0].weight
    load_weights(loaded, tmp_path / "tied.safetensors")
    assert fingerprint(loaded) == fingerprint(tied)


def test_a_failed_save_leaves_the_old_file_and_no_rubbish(tmp_path, model, other, monkeypatch):
    path = tmp_path / "model.safetensors"
    save_weights(model, path)
    before = path.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be written \(No space"):
        save_weights(other, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_save_replaces_the_old_file(tmp_path, model, other):
    path = tmp_path / "model.safetensors"
    save_weights(model, path)
    save_weights(other, path)
    load_weights(model, path)
    assert fingerprint(model) == fingerprint(other)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_state_that_is_no_tensor_cannot_be_saved(tmp_path):
    class Extra(nn.Module):
        def get_extra_state(self):
            return {"step": 3}

    with pytest.raises(InputError, match="only tensors"):
        save_weights(Extra(), tmp_path / "model.safetensors")


@pytest.mark.parametrize("key", [None, "state_dict", "model"])
@pytest.mark.parametrize("suffix", ["pt", "pth"])
def test_state_dicts_of_torch_are_read(tmp_path, model, other, key, suffix):
    state = model.state_dict()
    path = tmp_path / f"model.{suffix}"
    torch.save({key: state, "epoch": 3} if key else state, path)
    load_weights(other, path)
    assert fingerprint(other) == fingerprint(model)


def save_state(path, model, change):
    state = dict(model.state_dict())
    change(state)
    torch.save(state, path)


def rename(state):
    state["fc.w"] = state.pop("fc.weight")


def reshape(state):
    state["fc.weight"] = state["fc.weight"][:5]


def empty(state):
    state.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename, r"missing fc\.weight; unexpected fc\.w\)"),
        (reshape, r"other shape fc\.weight \[5, 64\] instead of \[10, 64\]"),
        (empty, r"missing features\.0\.weight, .* and 17 more"),
    ],
)
def test_weights_of_another_model_are_named_and_not_loaded(tmp_path, model, other, change, message):
    save_state(tmp_path / "model.pt", model, change)
    before = fingerprint(other)
    with pytest.raises(InputError, match=message) as caught:
        load_weights(other, tmp_path / "model.pt")
    assert "\n" not in str(caught.value)
    assert fingerprint(other) == before


@pytest.mark.parametrize(("kind", "told"), [(torch.int8, "int8"), (torch.complex64, "complex64")])
def test_numbers_that_are_no_weights_are_refused(tmp_path, model, other, kind, told):
    state = {name: (100 * value).to(kind) for name, value in model.state_dict().items()}
    torch.save(state, tmp_path / "model.pt")
    before = fingerprint(other)
    with pytest.raises(InputError, match=rf"and \d+ more of type {told}, where .* not quantised"):
        load_weights(other, tmp_path / "model.pt")
    assert fingerprint(other) == before


def test_weights_of_another_precision_are_taken(tmp_path, model, other):
    half = {name: value.half() for name, value in model.state_dict().items()}
    torch.save(half, tmp_path / "model.pt")
    load_weights(other, tmp_path / "model.pt")
    assert all(torch.equal(other.state_dict()[name], half[name].float()) for name in half)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, model, other, value):
    with torch.no_grad():
        model.get_parameter("fc.bias")[3] = value
    save_weights(model, tmp_path / "model.safetensors")
    before = fingerprint(other)
    with pytest.raises(NonFiniteError, match=r"fc\.bias has NaN or infinite"):
        load_weights(other, tmp_path / "model.safetensors")
    assert fingerprint(other) == before


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
@pytest.mark.parametrize("keep", [0, 50, -50])
def test_a_torn_file_is_refused(tmp_path, model, suffix, keep):
    path = tmp_path / f"model.{suffix}"
    if suffix == "pt":
        torch.save(model.state_dict(), path)
    else:
        save_weights(model, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="cannot be read as weights") as caught:
        load_weights(model, path)
    assert "\n" not in str(caught.value)


def test_a_whole_pickled_model_is_refused_with_the_remedy(tmp_path, model):
    torch.save(model, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"save model\.state_dict\(\) alone"):
        load_weights(model, tmp_path / "model.pt")


def test_a_file_without_weights_is_refused(tmp_path, model):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(InputError, match="no state dict"):
        load_weights(model, tmp_path / "list.pt")


@pytest.mark.parametrize("name", ["absent.pt", "absent.safetensors"])
def test_a_missing_file_is_said(tmp_path, model, name):
    with pytest.raises(InputError, match="no such file"):
        load_weights(model, tmp_path / name)


def test_other_endings_are_refused(tmp_path, model):
    endings = r"\.safetensors, \.pt, \.pth, \.pth\.tar and \.ckpt"
    with pytest.raises(InputError, match=f"read from {endings}"):
        load_weights(model, tmp_path / "model.onnx")

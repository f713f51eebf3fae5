"""Weights of other origins, and parts of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from steepest.errors import InputError, NonFiniteError
from steepest.models import MODELS, LoadReport, build, load_weights
from steepest.modules.fingerprint import fingerprint


@pytest.fixture
def model():
    return build("small-cnn", 10, 1, seed=0)


@pytest.fixture
def other():
    return build("small-cnn", 10, 1, seed=1)


def save(path, state):
    torch.save(state, path)
    return path


def prefixed(prefix, state):
    return {prefix + name: value for name, value in state.items()}


@pytest.mark.parametrize("prefix", ["module.", "model.", "module.model.", "_orig_mod."])
@pytest.mark.parametrize("key", ["state_dict", "net", "model_state_dict"])
def test_what_wrappers_add_to_names_is_taken_off(tmp_path, model, other, prefix, key):
    state = {key: prefixed(prefix, model.state_dict()), "acc": 91.5, "epoch": 3}
    report = load_weights(other, save(tmp_path / "ckpt.pth", state))
    assert fingerprint(other) == fingerprint(model)
    assert report.loaded == tuple(model.state_dict())
    assert report.fresh == report.ignored == ()


def test_names_that_happen_to_begin_like_a_wrapper_stay(tmp_path):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Linear(3, 2)

    first, second, third = Wrapped(), Wrapped(), Wrapped()
    load_weights(second, save(tmp_path / "own.pt", first.state_dict()))
    load_weights(third, save(tmp_path / "bare.pt", first.model.state_dict()))
    assert fingerprint(first) == fingerprint(second) == fingerprint(third)


@pytest.mark.parametrize("name", ["model.pth.tar", "model.ckpt", "MODEL.PTH"])
def test_other_endings_of_torch_files_are_read(tmp_path, model, other, name):
    load_weights(other, save(tmp_path / name, model.state_dict()))
    assert fingerprint(other) == fingerprint(model)


def test_old_files_without_counters_are_read(tmp_path, model, other):
    model.features[1].num_batches_tracked.fill_(7)
    other.features[1].num_batches_tracked.fill_(9)
    old = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    path = tmp_path / "old.pth"
    torch.save(old, path, _use_new_zipfile_serialization=False)
    report = load_weights(other, str(path))
    assert len(report.loaded) == len(model.state_dict())
    assert int(other.features[1].num_batches_tracked) == 0
    assert all(torch.equal(other.state_dict()[name], value) for name, value in old.items())


def test_a_counter_alone_is_not_enough(tmp_path, model, other):
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("features.1.")}
    with pytest.raises(InputError, match=r"missing features\.1\.weight.* and 2 more"):
        load_weights(other, save(tmp_path / "model.pt", state))


def parts(report, state):
    """Return the names of the loaded and the fresh layers."""
    assert set(report.loaded) | set(report.fresh) == set(state)
    assert not set(report.loaded) & set(report.fresh)
    return [{name.partition(".")[0] for name in names} for names in (report.loaded, report.fresh)]


def test_the_first_layers_of_an_imagenet_net_can_be_loaded_alone(tmp_path):
    published = build("resnet18", 1000, 3, seed=9)
    path = save(tmp_path / "resnet18.pth", published.state_dict())
    model = build("resnet18", 101, 3, seed=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    chosen = ("conv1", "bn1", "layer1", "layer2", "layer3")
    report = load_weights(model, path, layers=chosen)
    after = model.state_dict()
    assert parts(report, after) == [set(chosen), {"layer4", "fc"}]
    assert all(torch.equal(after[name], before[name]) for name in report.fresh)
    theirs = published.state_dict()
    assert all(torch.equal(after[name], theirs[name]) for name in report.loaded)
    assert {name.partition(".")[0] for name in report.ignored} == {"layer4", "fc"}


@pytest.mark.parametrize(
    "choice",
    [
        {"layers": "backbone"},
        {"layers": ["backbone"]},
        {"skip": "fc"},
        {"skip": ("fc",)},
        {"layers": "features"},
    ],
)
def test_all_but_the_head_can_be_loaded(tmp_path, model, choice):
    path = save(tmp_path / "model.pth", build("small-cnn", 7, 1, seed=1).state_dict())
    before = model.fc.weight.clone()
    report = load_weights(model, path, **choice)
    assert parts(report, model.state_dict()) == [{"features"}, {"fc"}]
    assert report.ignored == ("fc.weight", "fc.bias")
    assert torch.equal(model.fc.weight, before)
    assert str(report) == (
        f"{path}: 18 of 20 loaded; fresh: fc.weight, fc.bias; ignored: fc.weight, fc.bias"
    )
    assert isinstance(report, LoadReport)


@pytest.mark.parametrize("name", ["vgg16", "vit-s16", "drn-d-22", "resnet3d-18"])
def test_every_model_knows_its_backbone(name):
    with torch.device("meta"):
        model = MODELS.get(name)(5, 3)
    heads = model.head_layers
    assert all(model.get_submodule(head).weight.shape[0] == 5 for head in heads)
    rest = [n for n, p in model.named_parameters() if not n.startswith(heads)]
    assert not any(5 in model.get_parameter(n).shape[:1] for n in rest)


def classification_form(model, classes=1000):
    """Return the state of the authors' classifier for whole images, as they name it."""
    state = {}
    for name, value in model.base.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            state[f"layer{name}"] = value
    state["fc.weight"], state["fc.bias"] = torch.ones(classes, 512, 1, 1), torch.ones(classes)
    return state


@pytest.mark.parametrize(
    "choice", [{"layers": "backbone"}, {"skip": ("seg", "up", "fc")}, {"layers": "base"}]
)
def test_a_published_classifier_starts_a_segmentation_net(tmp_path, choice):
    theirs, model = build("drn-d-22", 2, 3, seed=1), build("drn-d-22", 19, 3, seed=0)
    published = classification_form(theirs)
    learnt = [v for k, v in published.items() if "running_" not in k]
    assert sum(v.numel() for v in learnt) == 16_393_752
    path = save(tmp_path / "drn.pth", prefixed("module.", published))
    report = load_weights(model, path, **choice)
    assert fingerprint(model.base) == fingerprint(theirs.base)
    assert report.fresh == ("seg.weight", "seg.bias", "up.weight")
    assert report.ignored == ("fc.weight", "fc.bias")


def test_a_published_segmentation_net_is_loaded_whole(tmp_path):
    theirs, model = build("drn-d-22", 19, 3, seed=1), build("drn-d-22", 19, 3, seed=0)
    path = save(tmp_path / "drn.pth", {"state_dict": prefixed("module.", theirs.state_dict())})
    assert load_weights(model, path).fresh == ()
    assert fingerprint(model) == fingerprint(theirs)


def test_a_classifier_is_not_a_whole_segmentation_net(tmp_path):
    model = build("drn-d-22", 2, 3, seed=0)
    path = save(tmp_path / "drn.pth", classification_form(model, 2))
    with pytest.raises(InputError, match=r"missing seg\.weight.*: choose layers that fit, or skip"):
        load_weights(model, path)


def rename(state):
    state["features.3.w"] = state.pop("features.3.weight")


def reshape(state):
    state["features.3.weight"] = state["features.3.weight"][:5]


def spoil(state):
    state["features.3.weight"] = state["features.3.weight"] / 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename, r"missing features\.3\.weight; unexpected features\.3\.w\)"),
        (reshape, r"features\.3\.weight \[5, 16, 3, 3\] instead of \[32, 16, 3, 3\]"),
        (spoil, r"features\.3\.weight has NaN or infinite weights"),
    ],
)
@pytest.mark.parametrize("choice", [{"layers": "backbone"}, {"layers": "features.3"}])
def test_a_part_must_fit_exactly_or_nothing_changes(
    tmp_path, model, other, change, message, choice
):
    state = dict(other.state_dict())
    change(state)
    before = fingerprint(model)
    path = save(tmp_path / "model.pt", state)
    with pytest.raises(NonFiniteError if change is spoil else InputError, match=message):
        load_weights(model, path, **choice)
    assert fingerprint(model) == before


def test_what_is_not_chosen_may_be_spoilt(tmp_path, model, other):
    state = dict(other.state_dict())
    spoil(state)
    report = load_weights(model, save(tmp_path / "model.pt", state), layers=("fc", "features.0"))
    assert report.loaded == ("features.0.weight", "fc.weight", "fc.bias")
    assert torch.equal(model.fc.weight, other.fc.weight)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"layers": "feature"}, r"layer 'feature' in the model: did you mean 'features'\?"),
        ({"layers": ("features.1", "layer1")}, "no weights of a layer 'layer1' in the model"),
        ({"skip": "fd"}, r"layer 'fd' in the model or in the file: did you mean 'fc'\?"),
        ({"skip": ("fc", "features")}, "nothing is left to load: choose more layers or skip fewer"),
        ({"layers": "fc", "skip": "fc"}, "nothing is left to load"),
        ({"layers": ()}, "nothing is left to load"),
        ({"layers": "features.2"}, "no weights of a layer 'features.2' in the model"),
    ],
)
def test_a_choice_that_matches_nothing_is_an_error(tmp_path, model, other, choice, message):
    path = save(tmp_path / "model.pt", other.state_dict())
    before = fingerprint(model)
    with pytest.raises(InputError, match=message) as caught:
        load_weights(model, path, **choice)
    assert "\n" not in str(caught.value)
    assert fingerprint(model) == before


class Own(nn.Module):
    def __init__(self, layer):
        super().__init__()
        setattr(self, layer, nn.Linear(3, 3))
        self.out = nn.Linear(3, 2)


def test_a_model_of_the_user_has_a_backbone_if_it_says_so(tmp_path):
    path = save(tmp_path / "model.pt", Own("backbone").state_dict())
    assert load_weights(Own("backbone"), path, layers="backbone").fresh == (
        "out.weight",
        "out.bias",
    )
    path = save(tmp_path / "model.pt", Own("body").state_dict())
    with pytest.raises(InputError, match="Own does not say what its backbone is"):
        load_weights(Own("body"), path, layers="backbone")
    marked = Own("body")
    marked.head_layers = ("out",)
    assert load_weights(marked, path, layers="backbone").fresh == ("out.weight", "out.bias")


def test_a_layer_is_not_another_whose_name_begins_alike(tmp_path):
    path = save(tmp_path / "model.pt", Own("out_more").state_dict())
    assert load_weights(Own("out_more"), path, layers="out").loaded == ("out.weight", "out.bias")
    report = load_weights(Own("out_more"), path, skip="out")
    assert report.loaded == ("out_more.weight", "out_more.bias")


def test_a_file_cannot_run_code(tmp_path, model):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    path = save(tmp_path / "trap.pth", {"state_dict": model.state_dict(), "trap": Trap()})
    with pytest.raises(InputError, match="cannot be read as weights"):
        load_weights(model, path)
    assert not (tmp_path / "ran").exists()

"""Data sets in the features of a pretrained net, and probes that learn from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from steepest.cli.main import main
from steepest.data import load
from steepest.errors import InputError, ModelError, SlowPathWarning
from steepest.experiment import feature_space
from steepest.experiment.config import DataPart
from steepest.experiment.feature_space import load_in_feature_space
from steepest.models import build
from steepest.models.backbones import Backbone
from steepest.training.probes import fit_probe, learn_head


class Blocks(nn.Module):
    """Means over the blocks of an image: features without weights that take time."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x.float(), 3).flatten(1)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Put a quick net in the place of the pretrained one; returns how often it was asked for."""
    monkeypatch.setenv("STEEPEST_FEATURES", str(tmp_path / "features"))
    found = []

    def find(name, kind):
        found.append(name)
        prepare = lambda image: torch.from_numpy(np.array(image)).permute(2, 0, 1)  # noqa: E731
        return Backbone(name, Blocks(), prepare, "as they are")

    monkeypatch.setattr(feature_space, "find_backbone", find)
    return found


def plain_features(images):
    """The features of images as the text describes them, without components."""
    return Blocks()(images.expand(-1, 3, -1, -1)).double()


def test_features_take_the_place_of_images(asked):
    part = DataPart(name="digits", backbone="blocks", limit=60)
    made = load_in_feature_space(part, "blocks")
    source = load("digits", limit=60)
    train, test = plain_features(source.train_images), plain_features(source.test_images)
    centred = train - train.mean(0)
    scale = centred.square().mean().sqrt()
    torch.testing.assert_close(made.train_images.double(), centred / scale, rtol=1e-3, atol=1e-3)
    expected = (test - train.mean(0)) / scale
    torch.testing.assert_close(made.test_images.double(), expected, rtol=1e-3, atol=1e-3)
    assert made.train_labels.digest() == source.train_labels.digest()
    assert torch.equal(made.test_labels, source.test_labels)
    assert (made.name, made.classes) == ("digits-features", source.classes)


def test_components_are_the_first_ones(asked):
    whole = load_in_feature_space(DataPart(name="digits", backbone="blocks", limit=60), "blocks")
    few = load_in_feature_space(
        DataPart(name="digits", backbone="blocks", limit=60, dimensions=4), "blocks"
    )
    u, s, _ = torch.linalg.svd(whole.train_images.double(), full_matrices=False)
    rows = u[:, :4] * s[:4]
    expected = rows / rows.square().mean().sqrt()
    found = few.train_images.double()
    torch.testing.assert_close(found.abs(), expected.abs(), rtol=2e-2, atol=2e-2)
    # Distances do not know how an axis is turned.
    torch.testing.assert_close(
        torch.cdist(found, found), torch.cdist(expected, expected), rtol=1e-2, atol=1e-2
    )


def test_they_are_kept_and_read_without_the_net(asked, tmp_path):
    part = DataPart(name="digits", backbone="blocks", limit=60, dimensions=4)
    first = load_in_feature_space(part, "blocks")
    again = load_in_feature_space(part, "blocks")
    assert asked == ["blocks"]
    assert torch.equal(first.train_images, again.train_images)
    assert torch.equal(first.test_images, again.test_images)
    assert first.train_labels.digest() == again.train_labels.digest()
    other = load_in_feature_space(DataPart(name="digits", backbone="blocks", limit=50), "blocks")
    assert len(other.train_images) == 50
    (kept, _) = sorted((tmp_path / "features").glob("digits-blocks-*.safetensors"))
    for file in (tmp_path / "features").glob("digits-*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.warns(SlowPathWarning, match="put together anew"):
        anew = load_in_feature_space(part, "blocks")
    assert torch.equal(first.train_images, anew.train_images)
    assert kept.exists()


def test_too_many_components_are_refused(asked):
    part = DataPart(name="digits", backbone="blocks", limit=60, dimensions=28)
    with pytest.raises(InputError, match="at most 27 components"):
        load_in_feature_space(part, "blocks")


def features(count, classes=3, width=5):
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(count) % classes
    centres = 2 * torch.randn(classes, width, generator=torch.Generator().manual_seed(1))
    return centres[y] + torch.randn(count, width, generator=draw), y


def test_a_linear_model_learns_the_probe():
    x, y = features(40)
    model = build("linear", 4, 5, seed=0)
    mean, std = (0.5,) * 5, (2.0,) * 5
    loss = learn_head(model, x, y, mean, std, seed=3)
    rows = (x - 0.5) / 2
    probe = fit_probe(rows, y, 4, seed=3)
    torch.testing.assert_close(model(rows), probe(rows), rtol=1e-4, atol=1e-4)
    assert loss == probe.report.loss


def test_what_is_no_probe_is_refused():
    x, y = features(20)
    plain = ((0.0,) * 5, (1.0,) * 5, 0)
    with pytest.raises(ModelError, match=r"model\.name=linear"):
        learn_head(build("mlp", 3, 5, seed=0), x, y, *plain)
    with pytest.raises(ModelError, match="has none"):
        learn_head(nn.Linear(5, 3, bias=False), x, y, *plain)
    with pytest.raises(InputError, match=r"data\.backbone"):
        learn_head(nn.Linear(5, 3), x[:, :, None, None], y, *plain)
    with pytest.raises(InputError, match="one class for each"):
        learn_head(nn.Linear(5, 3), x, torch.zeros(20, 3, dtype=torch.bool), *plain)


def test_what_cannot_be_run_is_one_line(asked, tmp_path, capsys):
    sets = ["data.limit=60", "loop.initial=20", "loop.k=5", "loop.cycles=2", "model.name=linear"]
    settings = [part for change in [*sets, "training.method=probe"] for part in ("--set", change)]
    out = str(tmp_path / "run")
    assert main(["run", "digits", "--quiet", "--out", out, *settings]) == 2
    assert (
        main(["run", "digits", "--quiet", "--out", out, *settings, "--set", "data.dimensions=3"])
        == 2
    )
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "belongs to the features of a backbone" in errors
    backbone = ["--set", "data.backbone=blocks"]
    assert main(["run", "digits", "--quiet", "--out", out, *settings, *backbone]) == 0

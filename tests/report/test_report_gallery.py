from __future__ import annotations

import base64
import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_runs import make_entry, write_comparison
from PIL import Image

from steepest import data as datasets
from steepest.data.alterations import with_wrong_labels
from steepest.data.identity import identify
from steepest.data.streamed import Streamed
from steepest.errors import DataError
from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.report import read_comparison
from steepest.experiment.report.gallery import LARGEST_SIDE, Pictures, gallery

CONFIG = {"data": {"name": "fake"}}


class Watched:
    """Reads images of one shade each, and remembers which."""

    draws = 0

    def __init__(self, broken=()) -> None:
        self.read: list[int] = []
        self.broken = broken

    def __call__(self, row, draw):
        assert draw is None
        self.read.append(row)
        if row in self.broken:
            raise DataError(f"image {row} is damaged")
        return torch.full((1, 4, 4), row, dtype=torch.uint8)


def fake_data(monkeypatch, images, ids=None) -> None:
    images = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
    loaded = SimpleNamespace(classes=("x", "y"), train_images=images, ids=ids or range(len(images)))
    monkeypatch.setattr(datasets, "load", lambda name, root=None, options=None, limit=None: loaded)


def decode(uri: str):
    head, data = uri.split(",", 1)
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_shows_the_sample_of_that_id(monkeypatch, channels):
    images = np.random.default_rng(0).integers(0, 256, (5, channels, 8, 8), dtype=np.uint8)
    fake_data(monkeypatch, images)
    uri = Pictures(CONFIG).uri(3)
    assert uri is not None
    shown = decode(uri)
    expected = images[3].transpose(1, 2, 0)
    np.testing.assert_array_equal(shown, expected[..., 0] if channels == 1 else expected)


def test_ids_may_be_paths(monkeypatch):
    images = np.stack([np.full((1, 4, 4), value, dtype=np.uint8) for value in (10, 20)])
    fake_data(monkeypatch, images, ids=["a/1.png", "b/2.png"])
    pictures = Pictures(CONFIG)
    uri = pictures.uri("b/2.png")
    assert uri is not None
    assert decode(uri).tolist() == [[20] * 4] * 4
    assert pictures.uri("c/3.png") is None


def test_large_pictures_are_made_small(monkeypatch):
    fake_data(monkeypatch, np.zeros((1, 3, 400, 200), dtype=np.uint8))
    uri = Pictures(CONFIG).uri(0)
    assert uri is not None
    assert decode(uri).shape == (LARGEST_SIDE, LARGEST_SIDE // 2, 3)


def test_only_the_samples_that_are_shown_are_read(monkeypatch):
    reader = Watched()
    fake_data(monkeypatch, Streamed(reader, 1_000_000, (1, 4, 4), torch.uint8))
    pictures = Pictures(CONFIG)
    assert reader.read == []
    uri = pictures.uri(200)
    assert uri is not None
    assert decode(uri).tolist() == [[200] * 4] * 4
    assert pictures.uri(200) == uri
    assert pictures.uri(1_000_000) is None
    assert reader.read == [200]


def wanting(*samples) -> Comparison:
    """Make a comparison whose one cycle wanted these samples."""
    entry = make_entry("margin", 0, 0, 2)
    entry |= {"wanted": [{"id": s, "score": 1.0} for s in samples], "unwanted": []}
    run = Run("margin", 0, (entry,))
    return Comparison("x", ("margin",), (0,), {("margin", 0): run}, CONFIG)


def test_a_sample_that_cannot_be_read_leaves_the_others_their_pictures(monkeypatch):
    fake_data(monkeypatch, Streamed(Watched(broken=[5, 6]), 9, (1, 4, 4), torch.uint8))
    page = gallery(wanting(4, 5, 6, 7), Pictures(CONFIG))
    assert page.count("<img ") == 2
    assert "Some pictures are missing" in page
    assert "(image 5 is damaged)" in page
    assert '<span class="id">5</span>' in page


def test_samples_that_cannot_be_read_at_all_are_listed(monkeypatch):
    fake_data(monkeypatch, Streamed(Watched(broken=range(9)), 9, (1, 4, 4), torch.uint8))
    page = gallery(wanting(4, 5), Pictures(CONFIG))
    assert "<img" not in page
    assert "Ids only: the pictures need the data (image 4 is damaged)" in page


def test_the_data_set_gets_its_options(monkeypatch):
    given = []

    def load(name, root=None, options=None, limit=None):
        given.append((name, options, limit))
        return SimpleNamespace(classes=(), train_images=torch.zeros(1, 1, 2, 2), ids=range(1))

    monkeypatch.setattr(datasets, "load", load)
    assert Pictures({"data": {"name": "fake", "options": {"size": 8}, "limit": 6}}).problem == ""
    Pictures(CONFIG)
    assert given == [("fake", {"size": 8}, 6), ("fake", None, None)]


def test_the_gallery_shows_the_first_seed_of_each_strategy(tmp_path):
    comparison = read_comparison(write_comparison(tmp_path, seeds=(4, 7), cycles=3))
    page = gallery(comparison, Pictures(comparison.config))
    assert re.findall(r"<summary>(.*?)</summary>", page) == [
        f"{name}, seed 4: 2 cycles" for name in ("entropy-gradnorm", "margin", "random")
    ]
    entries = comparison.runs["margin", 4].entries
    for sample in [*entries[0]["wanted"], *entries[1]["unwanted"]]:
        assert f'<span class="id">{sample["id"]}</span>' in page
        assert f'<span class="score">{sample["score"]:.3g}</span>' in page
    shown = sum(
        len(entry["wanted"]) + len(entry["unwanted"])
        for name in comparison.strategies
        for entry in comparison.runs[name, 4].entries
    )
    assert page.count("<img ") == page.count('src="data:image/png;base64,') == shown
    assert page.count('alt="sample ') == shown


def test_without_the_data_ids_are_listed(monkeypatch):
    def fail(name, root=None, options=None, limit=None):
        raise DataError("files of <fake> are missing")

    monkeypatch.setattr(datasets, "load", fail)
    run = Run("margin", 0, tuple(make_entry("margin", 0, c, 2) for c in range(2)))
    comparison = Comparison("x", ("margin",), (0,), {("margin", 0): run}, CONFIG)
    page = gallery(comparison, Pictures(CONFIG))
    assert "pictures need the data (files of &lt;fake&gt; are missing)" in page
    assert "<img" not in page
    assert f'<span class="id">{run.entries[0]["wanted"][0]["id"]}</span>' in page


@pytest.mark.parametrize("config", [{}, {"data": {}}, {"data": "digits"}])
def test_a_configuration_without_data_is_said(config):
    assert Pictures(config).problem == "the configuration names no data set"


def test_an_unknown_data_set_is_said():
    assert "no-such" in Pictures({"data": {"name": "no-such"}}).problem


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_pictures_and_classes_are_of_the_data_that_the_runs_were_made_with(
    tmp_path, monkeypatch, noise
):
    """A relative path leads elsewhere once one is elsewhere."""
    for folder, names in (("here", ["dark", "light"]), ("there", ["x", "y"])):
        (tmp_path / folder).mkdir()
        images = np.random.default_rng(len(folder)).integers(0, 256, (12, 4, 4), dtype=np.uint8)
        labels = np.arange(12) % 2
        np.savez(
            tmp_path / folder / "a.npz", train_images=images, train_labels=labels, classes=names
        )
    table = {"name": "npz", "options": {"path": "a.npz", "test_share": 0.5}, "label_noise": noise}
    monkeypatch.chdir(tmp_path / "here")
    own = datasets.load("npz", options=table["options"])
    made_with = identify(with_wrong_labels(own, noise))
    told = Pictures({"data": table}, made_with=made_with)
    assert told.uri(2) is not None
    monkeypatch.chdir(tmp_path / "there")
    told = Pictures({"data": table}, made_with=made_with)
    assert told.uri(2) is None
    assert told.classes == ("dark", "light")
    assert told.problem == "what is now found as npz is not what the runs were made with"


def test_the_report_asks_the_runs_what_they_were_made_with(tmp_path):
    folder = write_comparison(tmp_path / "made")
    assert read_comparison(folder).data == {}
    run = next((folder / "runs").glob("*/seed-*"))
    (run / "data.json").write_text('{"classes": ["cat", "newt"]}')
    assert read_comparison(folder).data == {"classes": ["cat", "newt"]}


def test_runs_on_features_show_the_images_that_these_are_of():
    table = {"data": {"name": "digits", "limit": 20, "backbone": "efficientnet-lite0"}}
    found = identify(datasets.load("digits", limit=20))
    features = {**found, "name": "digits-features", "content": "other", "train": [20, 1280]}
    pictures = Pictures(table, made_with=features)
    assert pictures.uri(3).startswith("data:image/png")
    assert Pictures(table, made_with={**features, "train": [21, 1280]}).uri(3) is None
    assert Pictures(table, made_with={**features, "test_content": "other"}).uri(3) is None
    assert Pictures({"data": {"name": "digits", "limit": 20}}, made_with=features).uri(3) is None

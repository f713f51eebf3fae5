from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from steepest.data import ImageSet, SealedLabels, Streamed, load
from steepest.data.identity import comparable, identify
from steepest.experiment.report.store import stores_below

RESULTS = Path(__file__).resolve().parents[2] / "results"


class Rows:
    draws = 0

    def __init__(self, data):
        self.data = data

    def __call__(self, row, draw):
        return self.data[row]


@pytest.fixture
def digits():
    return load("digits")


def test_it_is_the_same_each_time_and_reads_no_label(digits):
    assert identify(digits) == identify(load("digits"))
    assert digits.train_labels.purposes == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_samples_that_moved_up_show(digits, streamed):
    moved = digits.train_images.roll(1, 0)
    if streamed:
        moved = Streamed(Rows(moved), len(moved), moved.shape[1:], moved.dtype)
    assert identify(replace(digits, train_images=moved)) != identify(digits)


def test_other_labels_show(digits):
    labels = digits.train_labels.unseal("test")
    labels[7] = (labels[7] + 1) % 10
    assert identify(replace(digits, train_labels=SealedLabels(labels))) != identify(digits)


def test_other_test_labels_show_in_a_field_of_their_own(digits):
    labels = digits.test_labels.clone()
    labels[7] = (labels[7] + 1) % 10
    before, after = identify(digits), identify(replace(digits, test_labels=labels))
    assert {key for key in before if before[key] != after[key]} == {"test_content"}


def make_scenes(maps, *, streamed):
    """Return 40 scenes with these test maps [40, 4, 4]."""
    images = torch.zeros(40, 1, 4, 4, dtype=torch.uint8)
    test = Streamed(Rows(maps), len(maps), maps.shape[1:], maps.dtype) if streamed else maps
    return ImageSet(
        "scenes", ("a", "b"), images, SealedLabels(torch.zeros_like(maps)), images, test,
        mean=(0.5,), std=(0.5,), task="segmentation",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "streamed", "shows"), [(39, False, True), (38, False, True), (39, True, True),
                                   (38, True, False)],
)  # fmt: skip
def test_of_maps_on_disk_only_some_are_looked_at(row, streamed, shows):
    maps = torch.zeros(40, 4, 4, dtype=torch.uint8)
    changed = maps.clone()
    changed[row, 1, 2] = 1
    before, after = (identify(make_scenes(m, streamed=streamed)) for m in (maps, changed))
    assert (before != after) is shows


def test_a_stored_identity_is_held_against_what_it_tells(digits):
    here = identify(digits)
    older = {key: value for key, value in here.items() if key != "test_content"}
    assert comparable(here, older) == older
    assert comparable(here, here) == here
    assert comparable(here, {**here, "test_content": "another"}) == here
    assert comparable(here, {**older, "content": "another"}) == older
    assert comparable(here, "no table") == here


def test_identities_in_the_results_are_still_understood():
    runs = [run for store in stores_below(RESULTS) for run in store.runs()]
    stored = [run.read("data.json") for run in runs if run.has("data.json")]
    assert len(stored) > 900
    for data in set(stored):
        check_understood(json.loads(data))


def check_understood(stored):
    here = {**stored, "test_content": stored.get("test_content", "0123456789abcdef")}
    assert comparable(here, stored) == stored
    assert set(comparable(here, {})) == {"name", "train", "test", "classes", "content"}

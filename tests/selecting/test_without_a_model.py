"""Choosing by features and labels alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import steepest
from steepest.errors import InputError
from steepest.features import FeatureTable
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pretrained import choose_on_features, number_labels
from steepest.training.probes import fit_probe

K = 6


def rows_of(count: int = 90, groups: int = 3, width: int = 12) -> torch.Tensor:
    """Rows in three heaps, each around a direction of its own."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.eye(width)[:groups] * 4
    return centres[torch.arange(count) % groups] + torch.randn(count, width, generator=draw)


NAMES = [f"{i:02d}.jpg" for i in range(90)]
LABELS = {NAMES[i]: "abc"[i % 3] for i in range(0, 60, 5)}


def table() -> FeatureTable:
    return FeatureTable(tuple(NAMES), rows_of())


def test_picks_are_those_of_a_fitted_probe():
    mine = steepest.select(None, rows_of(), K, "margin", ids=NAMES, labels=LABELS, progress=False)
    numbers = [ord(label) - ord("a") for label in LABELS.values()]
    probe = fit_probe(rows_of()[[NAMES.index(i) for i in LABELS]], numbers, ids=list(LABELS))
    theirs = steepest.select(
        probe, rows_of(), K, "margin", ids=NAMES, labelled=LABELS, progress=False
    )
    assert mine.ids == theirs.ids
    assert mine.scores == pytest.approx(theirs.scores)


def test_labelled_samples_are_never_chosen_and_classes_have_their_names():
    picks = steepest.select(None, table(), K, labels=LABELS, labelled=[NAMES[1]], progress=False)
    assert not set(picks.ids) & {*LABELS, NAMES[1]}
    assert {count.name for count in picks.verdict.spread} <= {"a", "b", "c"}


def test_before_there_are_labels_the_picks_cover_the_pool():
    picks = steepest.select(None, table(), 3, progress=False)
    assert {NAMES.index(i) % 3 for i in picks.ids} == {0, 1, 2}
    assert picks.strategy == "max-herding"
    assert picks.regime is None
    assert "nearer to the 3 picks" in str(picks.verdict)


def test_one_class_teaches_nothing_but_is_covered():
    only = dict.fromkeys(NAMES[0:30:3], "a")  # All of one heap.
    made = choose_on_features(table(), 2, None, SelectionOptions(progress=False), only)
    assert made.probe is None
    assert {NAMES.index(i) % 3 for i in made.selection.ids} == {1, 2}


def test_the_same_picks_for_any_order_and_form_of_the_labels(tmp_path):
    whole = steepest.select(None, table(), K, labels=LABELS, progress=False)
    turned = dict(reversed(LABELS.items()))
    assert steepest.select(None, table(), K, labels=turned, progress=False) == whole
    (tmp_path / "labels.csv").write_text("".join(f"{i},{c}\n" for i, c in LABELS.items()))
    path = tmp_path / "labels.csv"
    assert steepest.select(None, table(), K, labels=path, progress=False) == whole
    back = list(range(89, -1, -1))
    mirrored = steepest.select(
        None, rows_of()[back], K, ids=[NAMES[i] for i in back], labels=LABELS, progress=False
    )
    assert mirrored.ids == whole.ids


def test_each_candidate_is_stood_for_once():
    made = choose_on_features(table(), K, None, SelectionOptions(progress=False))
    assert sum(made.stands_for) == 90
    known = choose_on_features(table(), K, None, SelectionOptions(progress=False), LABELS)
    assert K <= sum(known.stands_for) < 90 - len(LABELS)  # The rest is near to labelled ones.


def test_the_coverage_that_is_said_is_that_of_all_distances():
    made = choose_on_features(table(), 3, None, SelectionOptions(progress=False))
    unit = torch.nn.functional.normalize(rows_of() - rows_of().mean(0), dim=1)

    def away(at):
        return float(torch.cdist(unit, unit[at]).min(1).values.mean())

    chance = np.mean([away(np.random.default_rng(s).permutation(90)[:3]) for s in range(400)])
    closer = 1 - away(table().positions(made.selection.ids)) / chance
    said = float(str(made.selection.verdict).split(" are ")[1].split("%")[0]) / 100
    assert said == pytest.approx(closer, abs=0.15)
    assert said > 0.1


def test_images_in_memory_are_looked_at_by_the_embedded_net():
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (8, 20, 20, 3), dtype=np.uint8)
    picks = steepest.select(None, images, 2, progress=False)
    same = steepest.select("efficientnet-lite0", torch.from_numpy(images).permute(0, 3, 1, 2), 2)
    assert picks.ids == same.ids


def test_numbers_keep_their_order_and_names_may_be_given():
    assert number_labels({"x": 10, "y": 2, "z": None}) == ({"x": 1, "y": 0}, ("2", "10"))
    assert number_labels({"x": 1, "y": "cat"}, ("cat", "dog"))[0] == {"x": 1, "y": 0}
    with pytest.raises(InputError, match="'cow', which is none of the classes cat, dog"):
        number_labels({"x": "cow"}, ("cat", "dog"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "margin"}, "needs a model, and there are no labels yet"),
        ({"strategy": "margin", "labels": {NAMES[0]: "a"}}, "all labels are of one class"),
        ({"labels": {NAMES[0]: ["a", "b"]}}, "give one class"),
        ({"task": "multi-label"}, "one class of several"),
        ({"options": {"reach": 2}}, "options belong to a strategy"),
        ({"k": 91}, "only 90 samples"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        steepest.select(**{"model": None, "pool": table(), "k": 2, "progress": False} | options)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (torch.zeros(4, 3, 8, 8), "needs a model of yours"),
        ([1, 2], "needs a model of yours"),
        (torch.zeros(4, 3, dtype=torch.int64), "needs a model of yours"),
    ],
)
def test_pools_that_no_pretrained_net_reads_are_refused(pool, said):
    with pytest.raises(InputError, match=said):
        steepest.select(None, pool, 2)


def test_labels_are_no_argument_beside_a_model():
    with pytest.raises(InputError, match="labels= is for choosing without a model"):
        steepest.select(torch.nn.Linear(12, 3), rows_of(), 2, labels={0: 1})


def test_where_all_is_alike_no_gain_over_random_picks_is_claimed():
    rows = torch.ones(12, 4) + 1e-6 * torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    picks = steepest.select(None, torch.ones(12, 4), k=1, progress=False)
    assert "1 pick covers the pool no better than random ones would" in str(picks.verdict)
    several = steepest.select(None, rows, k=11, progress=False)
    assert " 0%" not in str(several.verdict)

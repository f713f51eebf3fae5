"""Choosing by a predicted loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.core.seeds import generator
from steepest.errors import InputError, ModelError
from steepest.models import build
from steepest.modules.features import extract_features
from steepest.strategies import Needs, Support, create
from steepest.strategies.networks.loss_head import LossHead, make_loss_head
from steepest.tasks import Segmentation

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

POOL = torch.randn(24, 1, 8, 8, generator=generator(0, "pool"))
TARGETS = Support(targets={i: i % 3 for i in range(10)})


@pytest.fixture
def model():
    return build("small-cnn", 3, 1, seed=0)


def score(model, support=TARGETS, pool=POOL, **more):
    given = {"labelled": range(10), "progress": False, "seed": 2, **more}
    return steepest.score(model, pool, "ll4al", support=support, **given)


def test_a_head_that_was_trained_along_is_asked(model):
    head = make_loss_head(model, POOL[:2], seed=1)
    found = score(model, Support(extra=head))
    maps = extract_features(model.eval(), POOL[10:], maps=True).maps
    np.testing.assert_allclose(found.values, head(maps).detach().numpy(), rtol=1e-5)
    assert list(found.ids) == list(range(10, 24))


def test_the_largest_predicted_loss_is_chosen_first(model):
    head = make_loss_head(model, POOL[:2], seed=1)
    picks = steepest.select(
        model, POOL, 14, "ll4al", support=Support(extra=head), labelled=range(10), progress=False
    )
    assert list(picks.scores) == sorted(picks.scores, reverse=True)
    assert set(picks.ids) == set(range(10, 24))


def test_without_a_head_one_is_fitted_to_the_labelled_samples(model):
    before = snapshot(model)
    found, again = score(model), score(model)
    other = score(model, seed=3)
    assert np.array_equal(found.values, again.values)
    assert not np.array_equal(found.values, other.values)
    assert same(snapshot(model), before)


def test_other_labels_give_another_head(model):
    other = Support(targets=dict.fromkeys(range(10), 0))
    assert not np.array_equal(score(model).values, score(model, other).values)


def test_off_fits_a_head_even_where_one_was_trained_along(model):
    head = make_loss_head(model, POOL[:2], seed=1)
    both = Support(targets=TARGETS.targets, extra=head)
    off = {"training": "off"}
    fitted = score(model, both, options=off).values
    assert np.array_equal(fitted, score(model, options=off).values)
    assert not np.array_equal(fitted, score(model, both).values)


@pytest.mark.parametrize("size", [1, 5])
def test_a_fitted_head_does_not_depend_on_the_batch_size(model, size):
    whole = score(model.double(), pool=POOL.double()).values
    parts = score(model, pool=POOL.double(), batch_size=size).values
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_it_works_where_gradients_are_switched_off(model):
    wanted = score(model).values
    with torch.no_grad():
        assert np.array_equal(score(model).values, wanted)
    with torch.inference_mode():
        assert np.isfinite(score(model).values).all()


def test_label_maps_and_volumes_are_chosen_from_too():
    class Pixels(nn.Module):
        block_layers = ("body",)
        head_layers = ("last",)

        def __init__(self):
            super().__init__()
            self.body = nn.Conv3d(1, 4, 3, padding=1)
            self.last = nn.Conv3d(4, 2, 1)

        def forward(self, x):
            return self.last(self.body(x).relu())

    volumes = torch.randn(9, 1, 4, 4, 4, generator=generator(0, "volumes"))
    maps = {i: (volumes[i, 0] > 0).to(torch.uint8) for i in range(5)}
    torch.manual_seed(0)
    found = score(Pixels(), Support(targets=maps), volumes, labelled=range(5), task=Segmentation(2))
    assert len(np.unique(found.values)) == 4


def test_a_run_trains_the_head_along_unless_told_otherwise(model):
    joint, off = create("ll4al"), create("ll4al", {"training": "off"})
    detached = create("ll4al", {"training": "detached"})
    head = joint.make_extra(model, POOL[:2], seed=0)
    assert isinstance(head, LossHead)
    assert [head.begin_epoch(e) for e in (0, 120, 121)] == ["joint", "joint", "detached"]
    assert detached.make_extra(model, POOL[:2], seed=0).begin_epoch(0) == "detached"
    assert off.make_extra(model, POOL[:2], seed=0) is None
    assert Needs.TARGETS in off.needs
    assert Needs.TARGETS not in joint.needs


@pytest.mark.parametrize("training", ["joint", "detached", "off"])
def test_without_a_head_labels_are_needed_whatever_the_training(training):
    alone = Needs.MAPS | Needs.LABELLED | Needs.TARGETS
    made = create("ll4al", {"training": training})
    wrapped = create("stochastic", {"of": "ll4al", "of_options": {"training": training}})
    assert made.needs_alone == wrapped.needs_alone == alone
    assert made.needs == wrapped.needs == (alone if training == "off" else Needs.MAPS)


def test_samples_that_wait_for_their_label_teach_a_head_nothing(model):
    waiting = score(model, labelled=range(12))
    assert list(waiting.ids) == list(range(12, 24))
    np.testing.assert_allclose(waiting.values, score(model).values[2:], rtol=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_head_beside_a_model_of_half_precision_learns_in_single(model, kind):
    class Rounded(nn.Module):  # CPUs need not know how to convolve in half precision
        head_layers = block_layers = ("maps",)

        def __init__(self):
            super().__init__()
            self.maps = nn.Identity()
            self.scale = nn.Parameter(torch.ones((), dtype=kind))

        def forward(self, x):
            return self.maps(x[:, :, :3] * self.scale)[:, 0, :, 0]

    found = score(Rounded(), pool=POOL.to(kind)).values
    exact = score(Rounded().float(), pool=POOL.to(kind).float()).values
    np.testing.assert_allclose(found, exact, atol=1e-5)
    assert len(np.unique(found)) > 10


@pytest.mark.parametrize("target", [7, 0.5])
def test_targets_that_are_no_classes_are_refused(model, target):
    with pytest.raises(InputError, match=r"ll4al: Support.targets are no targets for logits \["):
        score(model, Support(targets=dict.fromkeys(range(10), target)))


def test_what_is_missing_is_said_in_one_line(model):
    for labelled in (None, range(10)):
        with pytest.raises(InputError, match=r"support=Support\(targets="):
            score(model, None, labelled=labelled)
    with pytest.raises(InputError, match="label at least 2"):
        score(model, Support(targets={0: 1}), labelled=[0])
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(ModelError, match="does not say which blocks"):
        score(plain)


@pytest.mark.parametrize("options", [{"detach_after": -1}, {"epochs": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="ll4al: "):
        create("ll4al", options)

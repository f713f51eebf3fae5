"""What is trained along with a model learns, and harms it only if it is meant to."""

from __future__ import annotations

import pytest
import torch

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.errors import NonFiniteError
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.strategies.networks.loss_head import make_loss_head
from steepest.tasks import Classification
from steepest.training import Checkpoint, Recipe, fit
from steepest.training.auxiliary_head import Extra

CPU = torch.device("cpu")
QUICK = Recipe(epochs=3, batch_size=8, lr=0.05, schedule="constant")
SEEN = torch.zeros(2, 1, 8, 8)


class StoppedError(Exception):
    pass


class StopAfter(SilentProgress):
    def __init__(self, epochs):
        self.left = epochs

    def task(self, description, total):
        progress = self

        class Context:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def advance(self, amount=1, note=""):
                if progress.left == 0:
                    raise StoppedError
                progress.left -= 1

        return Context()


def train(model, extra, recipe=QUICK, progress=None, checkpoint=None):
    images = torch.randint(256, (21, 1, 8, 8), generator=generator(0, "images"))
    labels = torch.randint(3, (21,), generator=generator(0, "labels"))
    return fit(
        model,
        Classification(3),
        images.to(torch.uint8),
        labels,
        recipe,
        mean=(0.5,),
        std=(0.25,),
        augmentation="shift",
        seed=0,
        device=CPU,
        progress=progress or SilentProgress(),
        extra=extra,
        checkpoint=checkpoint,
    )


def small():
    return build("small-cnn", 3, 1, seed=0)


def head(model, joint_epochs):
    return make_loss_head(model, SEEN, 0, joint_epochs)


def test_the_head_learns_and_ends_in_eval_mode_without_gradients():
    model = small()
    extra = head(model, 2)
    before = fingerprint(extra)
    train(model, extra)
    assert fingerprint(extra) != before
    assert not extra.training
    assert all(p.grad is None for p in extra.parameters())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_detached_head_leaves_the_model_as_it_would_be_without(optimizer):
    recipe = Recipe(epochs=2, batch_size=8, lr=0.01, schedule="constant", optimizer=optimizer)
    plain, detached, joint = small(), small(), small()
    alone = train(plain, None, recipe)
    along = train(detached, head(detached, 0), recipe)
    train(joint, head(joint, 1), recipe)
    assert fingerprint(detached) == fingerprint(plain)
    assert fingerprint(joint) != fingerprint(plain)
    assert along.final_loss == alone.final_loss


def test_the_gradient_of_the_model_is_the_plain_one_once_the_maps_are_detached():
    from steepest.modules.features import extract_features

    model = small().train()
    extra = head(model, 1)
    x = torch.randn(6, 1, 8, 8, generator=generator(0, "x"))
    y = torch.arange(6) % 3
    weights = list(model.parameters())

    def gradients(epoch):
        extra.begin_epoch(epoch)
        found = extract_features(model, x, maps=True, detach=False)
        losses = Classification(3).training_loss(found.logits, y)
        return torch.autograd.grad(losses.mean() + extra.loss(found, losses), weights)

    plain = torch.autograd.grad(Classification(3).training_loss(model(x), y).mean(), weights)
    later = zip(gradients(1), plain, strict=True)
    assert all(torch.equal(a, b) for a, b in later)
    first = zip(gradients(0), plain, strict=True)
    assert not all(torch.equal(a, b) for a, b in first)


@pytest.mark.parametrize("done", [1, 2])
def test_a_stopped_training_goes_on_to_the_same_bits(done, tmp_path):
    whole, stopped, resumed = small(), small(), small()
    heads = [head(model, 2) for model in (whole, stopped, resumed)]
    train(whole, heads[0])
    path = tmp_path / "state.safetensors"
    with pytest.raises(StoppedError):
        train(
            stopped,
            heads[1],
            progress=StopAfter(done),
            checkpoint=Checkpoint(path, every_seconds=0),
        )
    train(resumed, heads[2], checkpoint=Checkpoint(path, every_seconds=1e9))
    assert fingerprint(resumed) == fingerprint(whole)
    assert fingerprint(heads[2]) == fingerprint(heads[0])


def test_the_state_of_another_head_is_not_taken_up(tmp_path):
    path = tmp_path / "state.safetensors"
    model, fresh = small(), small()
    state = Checkpoint(path, every_seconds=0)
    with pytest.raises(StoppedError):
        train(model, head(model, 2), progress=StopAfter(2), checkpoint=state)
    other, again = make_loss_head(fresh, SEEN, 5, 2), make_loss_head(fresh, SEEN, 5, 2)
    train(fresh, other, checkpoint=Checkpoint(path, every_seconds=1e9))
    train(twin := small(), again)
    assert fingerprint(twin) == fingerprint(fresh)


def test_every_epoch_is_announced_in_order():
    class Note(Extra):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.epochs = []

        def loss(self, features, losses):
            assert features.maps == ()
            return self.weight.sum() * 0

        def begin_epoch(self, epoch):
            self.epochs.append(epoch)
            return ""

    extra = Note()
    train(small(), extra)
    assert extra.epochs == [0, 1, 2]


def test_a_head_that_diverges_is_reported():
    class Wild(Extra):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def loss(self, features, losses):
            return self.weight.sum() * torch.inf

    with pytest.raises(NonFiniteError, match="not finite after training"):
        train(small(), Wild())

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from steepest.core.progress import SilentProgress
from steepest.core.seeds import generator
from steepest.data import load
from steepest.errors import InputError, ModelError, NonFiniteError, UnknownNameError
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Classification
from steepest.training import AUGMENTATIONS, Recipe, fit, predict_logits
from steepest.training.batches import LabelledImages, split_order

CPU = torch.device("cpu")
QUICK = Recipe(epochs=2, batch_size=8, lr=0.05, schedule="constant")


def draw_images(count=20, channels=1):
    images = torch.randint(256, (count, channels, 8, 8), generator=generator(0, "images"))
    labels = torch.randint(3, (count,), generator=generator(0, "labels"))
    return images.to(torch.uint8), labels


def train(model, recipe=QUICK, count=20, channels=1, seed=0, progress=None, **changes):
    images, labels = draw_images(count, channels)
    scale = {"mean": (0.5,) * channels, "std": (0.25,) * channels}
    options = {**scale, "augmentation": "shift", **changes}
    return fit(
        model,
        Classification(3),
        images,
        labels,
        recipe,
        seed=seed,
        device=CPU,
        progress=progress or SilentProgress(),
        **options,
    )


def small():
    return build("small-cnn", 3, 1, seed=0)


def dropping():
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3))


def test_the_seed_decides_the_weights_to_the_last_bit():
    first, second, other = small(), small(), small()
    train(first)
    torch.rand(7)
    train(second)
    train(other, seed=1)
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first) != fingerprint(other)


def test_dropout_has_its_own_randomness():
    states = []
    weights = []
    for start in (1, 2):
        torch.manual_seed(5)
        model = dropping()
        torch.manual_seed(start)
        before = torch.get_rng_state()
        train(model)
        states.append(torch.equal(before, torch.get_rng_state()))
        weights.append(fingerprint(model))
    assert states == [True, True]
    assert weights[0] == weights[1]


def test_the_model_ends_in_eval_mode_without_gradients_in_its_usual_layout():
    model = small()
    result = train(model)
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert all(p.is_contiguous() for p in model.parameters())
    assert result.epochs == 2
    assert result.final_loss > 0
    assert result.seconds > 0


def test_one_step_is_what_the_optimizer_does_by_hand():
    images, labels = draw_images(6)
    recipe = Recipe(epochs=1, batch_size=6, lr=0.1, augmentation="none", channels_last=False)
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    twin = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    twin.load_state_dict(linear.state_dict())
    result = train(linear, recipe, count=6)
    loss = nn.functional.cross_entropy(twin((images / 255 - 0.5) / 0.25), labels)
    loss.backward()
    with torch.no_grad():
        for p, q in zip(linear.parameters(), twin.parameters(), strict=True):
            assert q.grad is not None
            assert torch.allclose(p, q - 0.1 * (q.grad + 5e-4 * q), atol=1e-6)
    assert result.final_loss == pytest.approx(loss.item(), rel=1e-5)


def train_plainly(model, recipe, optimizer, count, seed):
    """Train with torch alone, and return the mean loss of the last epoch."""
    images, labels = draw_images(count)
    pixels = (images / 255 - 0.5) / 0.25
    for epoch in range(recipe.epochs):
        losses = []
        order = torch.randperm(count, generator=generator(seed, "shuffle", epoch))
        for rows in torch.split(order, recipe.batch_size):
            each = nn.functional.cross_entropy(model(pixels[rows]), labels[rows], reduction="none")
            optimizer.zero_grad()
            each.mean().backward()
            optimizer.step()
            losses.append(each.detach())
    return float(torch.cat(losses).mean())


@pytest.mark.parametrize(
    ("options", "make"),
    [
        ({"momentum": 0.5, "weight_decay": 0.1}, torch.optim.SGD),
        ({"momentum": 0.7, "nesterov": True, "weight_decay": 0.0}, torch.optim.SGD),
        ({"weight_decay": 0.1}, torch.optim.Adam),
        ({"weight_decay": 0.0}, torch.optim.Adam),
    ],
)
def test_a_training_is_that_of_torch_with_the_options_of_the_recipe(options, make):
    name = "adam" if make is torch.optim.Adam else "sgd"
    recipe = Recipe(
        epochs=3, batch_size=8, lr=0.05, schedule="constant", optimizer=name,
        augmentation="none", channels_last=False, **options,
    )  # fmt: skip
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    twin = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    twin.load_state_dict(linear.state_dict())
    found = train(linear, recipe, seed=2)
    wanted = train_plainly(twin, recipe, make(twin.parameters(), lr=0.05, **options), 20, seed=2)
    assert found.final_loss == pytest.approx(wanted, rel=1e-5)
    for p, q in zip(linear.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam", "lr": 0.01},
        {"nesterov": True},
        {"schedule": "cosine"},
        {"augmentation": "none"},
    ],
)
def test_options_change_the_training(options):
    plain, changed = small(), small()
    train(plain)
    result = train(changed, Recipe(**{**vars(QUICK), **options}))
    assert 0 < result.final_loss < 10
    assert fingerprint(plain) != fingerprint(changed)


@pytest.mark.parametrize("wanted", [True, False])
def test_channels_last_is_the_layout_inside_the_net(wanted):
    model, layouts = build("small-cnn", 3, 3, seed=0), []
    model.get_submodule("features.3").register_forward_pre_hook(
        lambda _, x: layouts.append(x[0].is_contiguous(memory_format=torch.channels_last))
    )
    result = train(model, Recipe(**{**vars(QUICK), "channels_last": wanted}), channels=3)
    assert set(layouts) == {wanted}
    default = train(build("small-cnn", 3, 3, seed=0), channels=3)
    assert result.final_loss == pytest.approx(default.final_loss, rel=1e-3)


def test_conv3d_weights_do_not_break_channels_last():
    class Volume(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv3d(1, 3, 3, padding=1)

        def forward(self, x):
            return self.conv(x[:, None]).mean(dim=(2, 3, 4))

    assert train(Volume()).final_loss > 0


def test_amp_leaves_the_cpu_alone():
    plain, mixed = small(), small()
    train(plain)
    train(mixed, Recipe(**{**vars(QUICK), "amp": True}))
    assert fingerprint(plain) == fingerprint(mixed)


def test_auto_means_the_augmentation_of_the_data_set():
    auto, named, none = small(), small(), small()
    train(auto, augmentation="crop-flip")
    train(named, Recipe(**{**vars(QUICK), "augmentation": "crop-flip"}), augmentation="none")
    train(none, augmentation="none")
    assert fingerprint(auto) == fingerprint(named) != fingerprint(none)


def test_order_and_augmentation_do_not_depend_on_the_batch_size():
    images, labels = draw_images(20)
    data = LabelledImages(images, labels, (0.5,), (0.25,), AUGMENTATIONS["crop-flip"])
    seen = []
    for size in (3, 7, 20):
        batches = list(data.batches(4, 1, size, CPU))
        seen.append([torch.cat(parts) for parts in zip(*batches, strict=True)])
    for pixels, order in seen[1:]:
        assert torch.equal(pixels, seen[0][0])
        assert torch.equal(order, seen[0][1])
    later = torch.cat([x for x, _ in data.batches(4, 2, 20, CPU)])
    assert not torch.equal(later, seen[0][0])


def test_every_epoch_has_an_order_of_its_own():
    images, labels = draw_images(20)[0], torch.arange(20)
    data = LabelledImages(images, labels, (0.5,), (0.25,), AUGMENTATIONS["none"])
    orders = {
        tuple(int(row) for _, rows in data.batches(4, epoch, 8, CPU) for row in rows)
        for epoch in range(5)
    }
    assert len(orders) == 5
    assert all(sorted(order) == list(range(20)) for order in orders)


@pytest.mark.parametrize(
    ("count", "sizes"), [(20, [8, 8, 4]), (17, [8, 9]), (9, [9]), (8, [8]), (1, [1])]
)
def test_a_last_batch_of_one_joins_the_one_before(count, sizes):
    batches = split_order(torch.arange(count), 8)
    assert [len(batch) for batch in batches] == sizes
    assert torch.cat(batches).tolist() == list(range(count))


def test_batchnorm_survives_a_left_over_sample_and_says_what_one_alone_needs():
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.BatchNorm1d(3))
    assert train(flat, count=17).final_loss > 0
    with pytest.raises(InputError, match="one labelled sample: label another one"):
        train(flat, count=1)


def test_a_diverging_training_says_where_and_what_to_do():
    wild = Recipe(epochs=30, batch_size=8, lr=1e20, schedule="constant", momentum=0.0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 3))
    with pytest.raises(NonFiniteError, match=r"in epoch \d+; lower lr=1e\+20"):
        train(linear, wild)


def test_weights_broken_by_the_last_step_are_noticed():
    wild = Recipe(epochs=1, batch_size=20, lr=1e38, schedule="constant", weight_decay=1e5)
    with pytest.raises(NonFiniteError, match="not finite after training; lower lr"):
        train(small(), wild)


def test_every_epoch_is_told_with_its_loss():
    told = []

    class Watcher:
        @contextmanager
        def task(self, description, total):
            told.append((description, total))
            yield self

        def advance(self, amount=1, note=""):
            told.append((amount, note[:5]))

    train(small(), progress=Watcher())
    assert told == [("train", 2), (1, "loss "), (1, "loss ")]


def test_what_cannot_be_trained_is_refused():
    images, labels = draw_images(4)
    given: dict[str, Any] = {"mean": (0.5,), "std": (0.25,), "seed": 0, "device": CPU}
    given["progress"] = SilentProgress()
    task = Classification(3)
    with pytest.raises(InputError, match="4 images for 3 labels"):
        fit(small(), task, images, labels[:3], QUICK, augmentation="none", **given)
    with pytest.raises(InputError, match="0 images"):
        fit(small(), task, images[:0], labels[:0], QUICK, augmentation="none", **given)
    with pytest.raises(UnknownNameError, match="augmentation 'twirl'"):
        fit(small(), task, images, labels, QUICK, augmentation="twirl", **given)
    with pytest.raises(ModelError, match="unfreeze"):
        train(small().requires_grad_(False))


def test_frozen_parameters_stay():
    model = small()
    frozen = model.get_parameter("features.0.weight").requires_grad_(False)
    before = frozen.clone()
    train(model)
    assert torch.equal(frozen, before)


def test_digits_are_learnt_from_200_labels():
    digits = load("digits")
    rows = torch.randperm(len(digits.ids), generator=generator(0, "rows"))[:200]
    model = build("small-cnn", 10, 1, seed=0)
    task = Classification(10)
    scale: dict[str, Any] = {"mean": digits.mean, "std": digits.std, "device": CPU}
    fit(
        model,
        task,
        digits.train_images[rows],
        digits.train_labels.unseal("test of learning")[rows],
        Recipe(epochs=50, batch_size=128, lr=0.3, nesterov=True, schedule="cosine"),
        augmentation=digits.augmentation,
        seed=0,
        progress=SilentProgress(),
        **scale,
    )
    logits = predict_logits(model, digits.test_images, **scale)
    metrics = task.metrics([(logits, digits.test_labels)])
    accuracy = metrics["accuracy"]
    assert isinstance(accuracy, float)
    assert accuracy > 0.9

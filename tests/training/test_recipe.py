from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from steepest.errors import ConfigError
from steepest.training import Recipe


def test_every_field_has_help():
    assert all(field.metadata["help"] for field in dataclasses.fields(Recipe))


def test_milestones_cut_the_learning_rate_from_that_epoch_on():
    recipe = Recipe(lr=0.1, milestones=(3, 5), gamma=0.1, epochs=6)
    rates = [recipe.lr_at(epoch) for epoch in range(6)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.01, 0.01, 0.001])


def test_the_default_drops_once_at_160():
    recipe = Recipe()
    assert recipe.lr_at(159) == 0.1
    assert recipe.lr_at(160) == pytest.approx(0.01)


def test_cosine_falls_from_lr_towards_0():
    recipe = Recipe(lr=0.4, schedule="cosine", epochs=10)
    rates = [recipe.lr_at(epoch) for epoch in range(10)]
    assert rates[0] == pytest.approx(0.4)
    assert rates[5] == pytest.approx(0.2)
    assert rates == sorted(rates, reverse=True)
    assert recipe.lr_at(10) == pytest.approx(0)


def test_constant_stays():
    recipe = Recipe(lr=0.2, schedule="constant", epochs=300)
    assert {recipe.lr_at(epoch) for epoch in range(300)} == {0.2}


def test_milestones_of_a_list_become_a_tuple():
    listed: Any = [1, 2]
    assert Recipe(milestones=listed) == Recipe(milestones=(1, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", 1.5),
        ("epochs", True),
        ("batch_size", 1),
        ("optimizer", "lbfgs"),
        ("schedule", "step"),
        ("augmentation", "mixup"),
        ("lr", 0),
        ("lr", math.nan),
        ("lr", "0.1"),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("weight_decay", -1e-4),
        ("weight_decay", math.inf),
        ("gamma", 0),
        ("gamma", 2),
        ("milestones", (0,)),
        ("milestones", (5, 3)),
        ("milestones", (3, 3)),
        ("milestones", (2.5,)),
        ("amp", 1),
        ("cuda_graph", 1),
        ("nesterov", "yes"),
        ("channels_last", None),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name, value):
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=f"^{name} is .*must be"):
        Recipe(**options)


def test_nesterov_needs_momentum():
    with pytest.raises(ConfigError, match="nesterov"):
        Recipe(nesterov=True, momentum=0.0)


def test_a_recipe_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().lr = 1.0  # type: ignore[misc]

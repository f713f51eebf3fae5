"""Configurations: presets, changes, and errors with a remedy."""

from __future__ import annotations

import pytest
from small import TOML, config

from steepest.core.tables import from_table
from steepest.errors import ConfigError, InputError, UnknownNameError
from steepest.experiment.config import Config, load_config, presets


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_valid_and_comes_back_as_it_went(name):
    made = load_config(name)
    assert from_table(Config, made.to_table()) == made


def test_the_papers_protocol_has_its_constants():
    paper = load_config("cifar10")
    loop, training = paper.loop, paper.training
    assert (loop.initial, loop.k, loop.cycles, loop.candidates) == (5000, 2500, 7, 25000)
    assert (training.epochs, training.batch_size, training.lr) == (200, 128, 0.1)
    assert (training.milestones, training.gamma, training.weight_decay) == ((160,), 0.1, 5e-4)
    assert paper.strategy.options == {"norm": "tensor-sum"}
    assert loop.init == "warm"


def test_a_file_and_changes_on_the_command_line(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    made = load_config(path, ["training.epochs=5", "loop.init=cold", "strategy.options.norm='l2'"])
    assert made.training.epochs == 5
    assert made.loop.init == "cold"
    assert made.strategy.options == {"norm": "l2"}
    assert load_config(path).training.epochs == 3


def test_options_of_another_name_do_not_stay_behind():
    assert load_config("camvid", ["strategy.name=margin"]).strategy.options == {}
    changes = ["strategy.options.draws=2", "strategy.name=fisher-gradnorm"]
    assert load_config("camvid", changes).strategy.options == {"draws": 2}
    same = load_config("camvid", ["strategy.name=entropy-gradnorm"])
    assert same.strategy.options == {"norm": "tensor-sum"}


def test_the_subset_is_ten_times_k_by_default():
    assert config(loop={"initial": 5, "k": 7, "cycles": 2}).loop.candidates == 70


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["training.epoch=5"], "did you mean 'epochs'"),
        (["lop.k=5"], "did you mean 'loop'"),
        (["strategy.name=margn"], "did you mean 'margin'"),
        (["strategy.options.norms=l2"], "did you mean 'norm'"),
        (["loop.init=hot"], "value for loop init 'hot'|value for .*init"),
        (["task.name=clasification"], "did you mean 'classification'"),
        (["loop.k=0"], "k must be at least 1"),
        (["loop.subset=3"], "less than k"),
        (["training.lr=-1"], "lr"),
        (["seed=1.5"], "expected int"),
        (["seed"], "name=value"),
        (["seed.x=1"], "is a value, not a table"),
    ],
)
def test_mistakes_are_named_with_the_nearest(changes, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    with pytest.raises(InputError, match=message) as caught:
        load_config(path, changes)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'cifar10'"):
        load_config("cifar-10")
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("seed = = 3")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "bad.toml")


def test_a_strategy_keeps_its_options_only_under_its_own_name():
    made = config(strategy={"name": "egl", "options": {"norm": "tensor-sum"}})
    assert made.with_strategy("egl", 5).strategy.options == {"norm": "tensor-sum"}
    assert made.with_strategy("margin", 5).strategy.options == {}
    assert made.with_strategy("margin", 5).seed == 5

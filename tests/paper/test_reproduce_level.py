"""The levels: the paper's protocol as it is, and a trial of everything."""

from __future__ import annotations

import numpy as np
import pytest

from steepest.errors import ConfigError, UnknownNameError
from steepest.experiment.config import load_config
from steepest.paper.artefact import all_artefacts
from steepest.paper.level import LEVELS, load_level
from steepest.paper.scenes import write_scenes
from steepest.paper.workspace import Workspace
from steepest.strategies import create


@pytest.mark.parametrize("name", LEVELS)
def test_every_need_of_every_artefact_is_a_valid_experiment(name, tmp_path):
    level = load_level(name)
    for one in all_artefacts():
        for need in one.needs():
            config = level.config(need.setting, need.init, weights=need.weights, work=tmp_path)
            for strategy in need.strategies:
                assert level.variant(strategy, need.setting).config(config, 1).seed == 1


@pytest.mark.parametrize("name", LEVELS)
def test_every_strategy_can_choose_from_what_its_experiment_is_about(name, tmp_path):
    level = load_level(name)
    tasks = set()
    for need in (need for one in all_artefacts() for need in one.needs()):
        config = level.config(need.setting, need.init, weights=need.weights, work=tmp_path)
        tasks.add(config.task.name)
        for strategy in need.strategies if config.task.name == "segmentation" else ():
            made = level.variant(strategy, need.setting).config(config, 0).strategy
            assert create(made.name, made.options).dense, (need.setting, strategy)
    assert "segmentation" in tasks


def test_the_paper_level_is_the_presets(tmp_path):
    level = load_level("paper")
    config = level.config("svhn", None, weights=False, work=tmp_path)
    assert config == load_config("svhn")
    assert level.seeds_of("svhn") == (0, 1, 2)
    assert level.seeds_of("imagenet") == (0, 1)
    assert level.comparable


def test_both_schemes_take_the_norm_of_the_published_code(tmp_path):
    level = load_level("paper")
    config = level.config("cifar10", None, weights=True, work=tmp_path)
    for name in ("expected-gradnorm", "entropy-gradnorm"):
        assert level.variant(name, "cifar10").config(config, 0).strategy.options == {
            "norm": "tensor-sum"
        }
    assert config.loop.keep_weights == "all"


@pytest.mark.parametrize("setting", ["cifar10", "svhn", "caltech101", "cityscapes", "50c-clean"])
def test_the_head_of_ll4al_leaves_the_model_alone_in_the_last_epochs(setting, tmp_path):
    level = load_level("paper")
    config = level.config(setting, None, weights=False, work=tmp_path)
    head = create("ll4al", level.variant("ll4al", setting).config(config, 0).strategy.options)
    assert 0.6 <= (head.detach_after + 1) / config.training.epochs <= 0.62


def test_all_labels_are_one_training_on_everything(tmp_path):
    config = load_level("paper").config("cifar10-full", None, weights=False, work=tmp_path)
    assert (config.loop.initial, config.loop.cycles) == (50_000, 1)


def test_fewer_seeds_and_faster_runs_may_be_asked_for(tmp_path):
    level = load_level("paper", ["training.amp=true"], seeds=[0])
    assert level.seeds_of("cifar10") == (0,)
    assert level.config("cifar10", None, weights=False, work=tmp_path).training.amp


def test_seeds_may_be_named(tmp_path):
    level = load_level("paper", seeds=[2, 0, 5])
    assert level.seeds_of("cifar10") == (2, 0, 5)
    assert level.seeds_of("imagenet") == (2, 0)
    assert level.seeds_of("cifar10", 1) == (2,)


@pytest.mark.parametrize("change", ["training.epochs=5", "loop.k=1", "data.limit=9"])
def test_the_protocol_cannot_be_changed(change):
    with pytest.raises(ConfigError, match="protocol"):
        load_level("paper", [change])


def test_what_the_paper_leaves_open_is_set_for_one_data_set_alone(tmp_path):
    changes = ["caltech101:model.weights=a:b/c=d.pth", "caltech101:data.options.size=64"]
    level = load_level("paper", [*changes, "svhn:training.amp=true", "threads=3"])
    for name in ("caltech101", "caltech101-full"):
        config = level.config(name, None, weights=False, work=tmp_path)
        assert config.model.weights == "a:b/c=d.pth"
        assert config.data.options["size"] == 64
        assert (config.training.amp, config.threads) == (False, 3)
    other = level.config("svhn", None, weights=False, work=tmp_path)
    assert (other.model.weights, other.training.amp, other.threads) == (None, True, 3)


def test_an_option_of_a_strategy_is_set_wherever_it_is_run():
    level = load_level("paper", ["ll4al:detach_after=7", "vaal:published=true", "vaal:latent=8"])
    for setting in ("cifar10", "caltech101"):  # The latter has an option of its own for ll4al.
        assert level.variant("ll4al", setting).options == {"detach_after": 7}
    assert level.variant("vaal", "svhn").options == {"published": True, "latent": 8}
    assert level.variant("sraal", "svhn").options == {}


@pytest.mark.parametrize(
    ("level", "change", "kind", "said"),
    [
        ("paper", "caltech101:loop.k=5", ConfigError, "caltech101:loop.k: would change the paper"),
        ("paper", "model.weights=a.pth", ConfigError, "as in caltech101:model.weights=FILE"),
        ("paper", "caltech101:model.name=vgg16", ConfigError, "protocol"),
        ("paper", "caltech:model.weights=a.pth", UnknownNameError, "did you mean 'caltech101'"),
        ("paper", "svhn-full:loop.subset=5", UnknownNameError, "'svhn'"),
        ("smoke", "svhn:loop.subset=5", UnknownNameError, "cifar10"),
        ("paper", "val:published=true", UnknownNameError, "did you mean 'vaal'"),
        ("paper", "vaal:publish=true", UnknownNameError, "did you mean 'published'"),
    ],
)
def test_the_protocol_of_one_data_set_cannot_be_changed(level, change, kind, said):
    with pytest.raises(kind, match=said):
        load_level(level, [change])


def test_unknown_levels_settings_and_numbers_of_seeds_are_refused():
    with pytest.raises(UnknownNameError, match="smoke"):
        load_level("smok")
    for seeds in ([], [1, 1], [-1]):
        with pytest.raises(ConfigError, match="at least 1"):
            load_level("smoke", seeds=seeds)
    with pytest.raises(UnknownNameError):
        load_level("smoke").resolve("cifar")


def test_scenes_are_always_the_same_and_have_every_class(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_scenes(tmp_path / name)
    with np.load(tmp_path / "a.npz") as one, np.load(tmp_path / "b.npz") as other:
        assert all(np.array_equal(one[key], other[key]) for key in one)
        assert set(np.unique(one["train_labels"])) == {0, 1, 2}
        assert one["train_images"].shape[1:] == (3, 32, 32)


@pytest.mark.parametrize("name", ["plain", "it's", 'a "b" \\ ü'])
def test_any_folder_can_hold_the_scenes(tmp_path, name):
    level = load_level("smoke")
    work = Workspace(level, tmp_path / name)
    config = level.config("cityscapes", None, weights=False, work=work.out / "work")
    scenes = work.out / "work" / "scenes.npz"
    assert config.data.options["path"] == str(scenes)
    assert not scenes.exists()
    work.write_own_data(config)
    whole = scenes.read_bytes()
    scenes.write_bytes(whole[:100])
    work.write_own_data(config)  # Damaged: nobody but us can write them again.
    assert scenes.read_bytes() == whole

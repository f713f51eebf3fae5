"""Experiments with models of the user's own: lazy layers, and dropout of their own."""

from __future__ import annotations

import sys

import pytest
from small import config, essence

from steepest.core.journal import Journal
from steepest.errors import ChangedCodeWarning, ConfigError, UnknownNameError
from steepest.experiment import Experiment
from steepest.experiment.comparison_runs import Comparing, Run
from steepest.experiment.environment import code_of

compare_module = sys.modules["steepest.experiment.compare"]

MODULE = """
from torch import nn

def lazy(classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(classes))

def thinned(classes):
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())
    return nn.Sequential(body, nn.Dropout(0.3), nn.Linear(8, classes))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def small(model, **changes):
    return config(model__name=f"own_models:{model}", training__epochs=1, **changes)


@pytest.mark.parametrize("start", ["cold", "warm", "shrink-perturb"])
def test_lazy_layers_get_their_weights_by_the_seed(own, start):
    chosen = small("lazy", loop__init=start, strategy__name="margin")
    first = Experiment(chosen, own / "a").run()
    stopped = Experiment(chosen, own / "b")
    stopped.run(until=1)
    assert essence(first) == essence(Experiment(chosen, own / "b").run())
    other = Experiment(small("lazy", seed=4, loop__init=start, strategy__name="margin"), own / "c")
    assert other.run(until=1)[0].model != first[0].model


def test_weights_of_a_file_reach_lazy_layers(own):
    chosen = small("lazy", strategy__name="margin")
    Experiment(chosen, own / "a").run(until=1)
    weights = own / "a" / "weights" / "cycle-000.safetensors"
    again = small("lazy", strategy__name="margin", model__weights=str(weights))
    models = [Experiment(again, own / "b").setup.fresh_model(seed) for seed in (1, 2)]
    assert models[0][1].weight.equal(models[1][1].weight)


@pytest.mark.parametrize("name", ["bald", "mc-dropout"])
def test_a_model_that_takes_no_dropout_says_how_to_use_its_own(own, name):
    with pytest.raises(ConfigError, match=r"takes no option 'dropout'.*placement=given"):
        Experiment(small("thinned", strategy__name=name), own / "a")
    given = {"strategy__name": name, "strategy__options": {"placement": "given", "draws": 3}}
    assert len(Experiment(small("thinned", **given), own / "a").run(until=1)) == 1


def test_an_option_of_the_user_that_a_factory_lacks_is_named_as_before(own):
    with pytest.raises(UnknownNameError, match="option of model 'own_models:thinned' 'width'"):
        Experiment(
            small("thinned", strategy__name="margin", model__options={"width": 3}), own / "a"
        )


def test_a_run_tells_its_code_and_goes_on_with_other_code_only_with_a_warning(own):
    chosen = small("thinned", strategy__name="margin")
    (record,) = Experiment(chosen, own / "a").run(until=1)
    assert record.environment["code"] == code_of(chosen) == code_of(chosen, strategy=False)
    Experiment(chosen, own / "a")  # Nothing has changed.
    (own / "own_models.py").write_text(MODULE.replace("0.3", "0.5"))
    assert record.environment["code"] != code_of(chosen)
    with pytest.warns(ChangedCodeWarning, match="made with another version of own_models than"):
        Experiment(chosen, own / "a")


def test_what_own_code_imports_from_beside_it_is_marked_too(own):
    (own / "own_models.py").write_text(f"from own_parts import rate\n{MODULE}")
    (own / "own_parts").mkdir()
    (own / "own_parts" / "__init__.py").write_text("from .deep import rate")
    (own / "own_parts" / "deep.py").write_text("rate = 0.3")
    (own / "own_parts" / "unused.py").write_text("")
    chosen = small("thinned", strategy__name="margin")
    (record,) = Experiment(chosen, own / "a").run(until=1)
    assert list(record.environment["code"]) == ["own_models", "own_parts", "own_parts.deep"]
    (own / "own_parts" / "deep.py").write_text("rate = 0.5")
    with pytest.warns(ChangedCodeWarning, match=r"another version of own_parts\.deep than"):
        Experiment(chosen, own / "a")


def test_a_run_that_told_of_the_named_module_alone_goes_on(own):
    (own / "own_models.py").write_text(f"import own_part\n{MODULE}")
    (own / "own_part.py").write_text("")
    chosen = small("thinned", strategy__name="margin")
    (record,) = Experiment(chosen, own / "a").run(until=1)
    told = record.to_table()
    del told["environment"]["code"]["own_part"]
    (own / "a" / "records.jsonl").unlink()
    Journal(own / "a" / "records.jsonl").append(told)
    assert len(Experiment(chosen, own / "a").run(until=2)) == 2


def test_complete_runs_of_other_code_are_named(own, monkeypatch):
    monkeypatch.setattr(Run, "complete", True)
    comparing = Comparing(small("thinned"), ["margin", "entropy"], [0], own / "out")
    Experiment(small("thinned"), own / "other")  # Imports the module.
    for run, mark in zip(
        comparing.runs, ("older", *code_of(comparing.config).values()), strict=False
    ):
        entry = {"environment": {"code": {"own_models": mark}}}
        Journal(run.folder / "records.jsonl").append(entry)
    with pytest.warns(
        ChangedCodeWarning, match=r"^runs of margin in .*out: made with another version"
    ):
        compare_module._check_parts(comparing)

"""A head that is trained along with a run's model, from cycle to cycle."""

from __future__ import annotations

import pytest
from small import config, essence

from steepest.experiment.label_requests import ask
from steepest.experiment.loop import Experiment


def run(path, **changes):
    return Experiment(config(**changes), path).run()


@pytest.mark.parametrize("training", ["joint", "detached", "off"])
@pytest.mark.parametrize("init", ["warm", "cold"])
def test_a_run_with_a_loss_head_goes_on_between_cycles(training, init, tmp_path, monkeypatch):
    wanted = {
        "strategy__name": "ll4al",
        "strategy__options": {"training": training, "detach_after": 1, "epochs": 5},
        "loop__init": init,
        "loop__initial": 20,
        "loop__subset": 30,
    }
    whole = run(tmp_path / "whole", **wanted)

    def stop_after_two(*whom, cycle):
        ask(*whom, cycle=cycle)
        if cycle == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("steepest.experiment.loop.ask", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", **wanted)
    assert essence(run(tmp_path / "stopped", **wanted)) == essence(whole)
    heads = list((tmp_path / "whole" / "weights").glob("*-extra.safetensors"))
    assert bool(heads) == (training != "off")
    assert all(len(set(record.selected)) == 10 for record in whole[:-1])


def test_a_detached_head_leaves_the_first_model_as_every_other_strategy_has_it(tmp_path):
    short = {"loop__cycles": 2, "loop__subset": 30}
    plain = run(tmp_path / "plain", strategy__name="random", **short)
    models = {
        training: run(
            tmp_path / training,
            strategy__name="ll4al",
            strategy__options={"training": training, "epochs": 2},
            **short,
        )[0].model
        for training in ("detached", "off", "joint")
    }
    assert models["detached"] == models["off"] == plain[0].model
    assert models["joint"] != plain[0].model


@pytest.mark.filterwarnings("ignore:.*have collapsed")
@pytest.mark.parametrize("name", ["vaal", "sraal"])
def test_what_a_strategy_trains_for_itself_is_accounted_for_apart(name, tmp_path):
    options = {"width": 2, "iterations": 3, "latent": 4, "batch_size": 8}
    first, _ = run(
        tmp_path / name,
        strategy__name=name,
        strategy__options=options,
        loop__cycles=2,
        loop__subset=30,
    )
    assert len(set(first.selected)) == 10
    assert first.auxiliary.seconds > 0

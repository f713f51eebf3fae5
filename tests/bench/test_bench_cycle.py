"""One cycle by every strategy, after the same training."""

from __future__ import annotations

import pytest

from steepest.bench.cycle import CycleBench, CycleResult, cycle_table
from steepest.cli.main import main
from steepest.core.progress import SilentProgress
from steepest.errors import ConfigError, InputError
from steepest.experiment.config import load_config
from steepest.experiment.variants import parse_variants

SETTINGS = ["training.epochs=1", "loop.initial=20", "loop.k=5", "data.limit=60"]


def bench(folder, *strategies, settings=()):
    config = load_config("digits", [*SETTINGS, *settings])
    return CycleBench(config, parse_variants(strategies), folder, SilentProgress())


def test_the_model_is_trained_once_and_what_strategies_train_is_told_apart(tmp_path):
    found = bench(tmp_path, "random", "margin", "gcn=core-gcn(epochs=2)", "two=qbc(size=2)").run()
    rows = {m.strategy: m for m in found.measurements}
    assert [m.status for m in found.measurements] == ["measured"] * 4
    assert [m.own_training for m in found.measurements] == [True, False, False, False]
    assert len({m.training_seconds for m in found.measurements}) == 1
    assert len({m.accuracy for m in found.measurements}) == 1
    assert rows["margin"].auxiliary_seconds is None
    assert rows["gcn"].auxiliary_seconds > 0
    assert rows["two"].auxiliary_seconds > 0
    assert found.complete


def test_a_strategy_that_changes_the_training_has_one_of_its_own(tmp_path):
    found = bench(tmp_path, "random", "mc=mc-dropout(draws=2)").run()
    assert [m.own_training for m in found.measurements] == [True, True]


def test_a_refusal_ends_nothing_and_is_told(tmp_path):
    found = bench(tmp_path, "jointly=batchbald(limit=1)", "random").run()
    assert [m.status for m in found.measurements] == ["refused", "measured"]
    assert "small batches" in cycle_table(found).text()


def test_the_same_bench_again_takes_over_what_is_there(tmp_path):
    first = bench(tmp_path, "random").run()
    again = bench(tmp_path, "random", "margin").run()
    assert again.measurements[0] == first.measurements[0]


def test_a_folder_of_other_runs_ends_the_bench_and_is_named(tmp_path):
    bench(tmp_path, "random").run()
    with pytest.raises(InputError, match=r"--runs .*cannot be used"):
        bench(tmp_path, "random", settings=["training.epochs=2"]).run()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--runs"):
        bench(tmp_path / "file", "margin").run()


def test_a_single_cycle_has_nothing_to_choose(tmp_path):
    with pytest.raises(ConfigError, match="at least 2"):
        bench(tmp_path, "random", settings=["loop.cycles=1"])


def test_the_command_writes_what_can_be_read_again(tmp_path, capsys):
    out = tmp_path / "cycle.json"
    changes = [part for setting in SETTINGS for part in ("--set", setting)]
    argv = ["bench", "cycle", "digits", "--strategies", "random,margin", "--quiet", *changes]
    assert main([*argv, "--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "20 labelled, 1 epochs, 5 chosen out of 50" in capsys.readouterr().out
    assert [m.strategy for m in CycleResult.read(out).measurements] == ["random", "margin"]

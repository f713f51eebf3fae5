"""A model is trained, scored in every precision, and trouble with one of them is recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steepest.bench import precision as bench
from steepest.bench.precision import (
    PrecisionBench,
    PrecisionResult,
    Settings,
    precision_table,
    train_and_draw,
)
from steepest.cli.main import main
from steepest.core.progress import SilentProgress
from steepest.data import load
from steepest.errors import InputError, UnknownNameError

CPU = torch.device("cpu")
TINY = ["bench", "precision", "--epochs", "2", "--pool-size", "40", "--quiet"]


def settings(**changes):
    return Settings(**({"preset": "digits", "device": CPU, "epochs": 2, "pool": 40} | changes))


@pytest.fixture
def child(monkeypatch):
    """Stand in for the process that scores in bf16: an error of 1 % in every other sample."""
    jobs = []

    def score(job, model, pool):
        jobs.append(job)
        exact = bench.score_pool(model, pool, job.norm, "fp32", SilentProgress())
        return exact * np.where(np.arange(len(exact)) % 2, 1.0, 1.01), "as told"

    monkeypatch.setattr(bench, "score_in_child", score)
    return jobs


def run(capsys, *argv):
    try:
        code = main([str(part) for part in argv])
    except SystemExit as leaving:
        code = leaving.code
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_each_precision_is_compared_with_fp32_and_fp64(child):
    result = PrecisionBench(settings(), SilentProgress()).run()
    assert result.complete
    assert (result.labels, result.epochs, result.pool, result.checked) == (40, 2, 40, 32)
    assert (result.model, result.norm, result.threads) == ("small-cnn", "l2", 1)
    assert 0 < result.test_metrics["accuracy"] < 1
    fp32, tf32, bf16 = result.precisions
    assert [m.status for m in result.precisions] == ["measured"] * 3
    assert (fp32.agreement.top_count, fp32.agreement.top_common) == (4, 4)
    assert fp32.agreement.largest_error == 0
    assert 0 < fp32.true_median_error <= fp32.true_largest_error < 1e-4
    assert tf32.agreement == fp32.agreement
    assert "no tf32" in tf32.note
    assert bf16.agreement.largest_error == pytest.approx(0.01)
    assert bf16.agreement.median_error == pytest.approx(0.005)
    assert bf16.true_largest_error == pytest.approx(0.01, rel=0.01)
    assert bf16.note == "as told"


def test_the_child_is_told_what_was_trained(child):
    PrecisionBench(settings(), SilentProgress()).run()
    (job,) = child
    assert (job.model, job.classes, job.channels) == ("small-cnn", 10, 1)
    assert (job.precision, job.norm, job.threads) == ("bf16", "l2", 1)


def test_trouble_with_one_precision_leaves_the_others_alone(monkeypatch):
    def crash(job, model, pool):
        raise RuntimeError("ended by\nSIGILL")

    monkeypatch.setattr(bench, "score_in_child", crash)
    told = []
    result = PrecisionBench(settings(), SilentProgress()).run(told.append)
    assert [m.status for m in result.precisions] == ["measured", "measured", "failed"]
    assert result.precisions[2].note == "RuntimeError: ended by SIGILL"
    assert [known.complete for known in told] == [False, False, True]
    text = precision_table(result).text()
    assert "  bf16: failed: RuntimeError: ended by SIGILL" in text
    row = next(line for line in text.splitlines() if line.startswith("bf16"))
    assert row.split()[1:] == ["–"] * 7


def test_the_model_and_the_pool_are_those_of_a_first_cycle():
    config = settings(seed=3).config()
    data = load("digits")
    first = train_and_draw(config, data, 50, CPU, SilentProgress())
    again = train_and_draw(config, data, 50, CPU, SilentProgress())
    assert list(first.ids) == list(again.ids)
    assert len(set(first.ids)) == 50
    assert torch.equal(first.pool, again.pool)
    assert not first.model.training
    for mine, other in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    labelled = data.train_labels.purposes
    assert "training on the initial set" in labelled


def test_the_pool_holds_nothing_that_was_trained_on():
    config = settings(labels=1290).config()
    assert len(train_and_draw(config, load("digits"), 50, CPU, SilentProgress()).ids) == 7


def test_the_preset_decides_the_norm_and_the_settings_replace_the_rest():
    config = settings(preset="cifar10", labels=7, seed=5).config()
    assert config.strategy.options["norm"] == "tensor-sum"
    assert (config.loop.initial, config.training.epochs, config.seed) == (7, 2, 5)
    assert settings(epochs=None).config().training.epochs == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "--epochs 0: at least 1"),
        ({"labels": 0}, "--train-size 0: at least 1"),
        ({"pool": 1}, "--pool-size 1: at least 2"),
        ({"top": 0.0}, "--top 0.0: give a share"),
        ({"top": 1.5}, "--top 1.5: give a share"),
        ({"top": float("nan")}, "--top nan: give a share"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(changes, message):
    with pytest.raises(InputError, match=message):
        settings(**changes)


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        PrecisionBench(settings(preset="digit"), SilentProgress())


def test_the_command_prints_a_table_and_saves_every_number(capsys, tmp_path, child):
    out = tmp_path / "precision.json"
    code, text, errors = run(capsys, *TINY, "--top", "0.25", "--out", out)
    assert (code, errors) == (0, "")
    lines = text.splitlines()
    assert lines[0].startswith("digits: small-cnn after 2 epochs on 40 labels of digits")
    assert "n = 40" in lines[0]
    assert "10 of 10" in next(line for line in lines if line.startswith("fp32"))
    assert f"Numbers: {out}" in text
    result = PrecisionResult.read(out)
    assert result.complete
    assert result.top == 0.25
    assert result.environment["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothing"], "unknown preset or configuration file 'nothing'"),
        (["--train-size", "1297"], "leave some for the pool"),
        (["--top", "2"], "--top 2.0: give a share"),
        (["--device", "tpu"], "device 'tpu' is not known"),
        (["--out", "."], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, argv, message):
    code, out, errors = run(capsys, "bench", "precision", *argv)
    assert (code, out) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("steepest: error: ")
    assert message in line


def test_ctrl_c_keeps_what_was_measured(capsys, tmp_path, monkeypatch):
    def stop(job, model, pool):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "score_in_child", stop)
    out = tmp_path / "precision.json"
    code, text, errors = run(capsys, *TINY, "--out", out)
    assert code == 130
    assert errors == f"steepest: stopped; what was measured so far is in {out}\n"
    assert "bf16: unfinished" in text
    result = PrecisionResult.read(out)
    assert not result.complete
    assert [m.status for m in result.precisions] == ["measured", "measured", "unfinished"]


def test_a_stop_during_training_has_no_numbers_and_breaks_nothing(capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "train_and_draw", stop)
    code, text, _ = run(capsys, *TINY)
    assert code == 130
    assert "not trained" in text

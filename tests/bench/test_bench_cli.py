"""``steepest bench gradnorm`` as a user types it."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from steepest.bench.contenders.base import STANDARD
from steepest.bench.gradnorm_result import GradnormResult
from steepest.bench.trial import Trial
from steepest.cli.main import main

TINY = [
    "bench",
    "gradnorm",
    "--models",
    "small-cnn",
    "--batch-size",
    "2",
    "--rounds",
    "1",
    "--quiet",
]


def run(capsys, *argv):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main([str(part) for part in argv])
        except SystemExit as leaving:
            code = leaving.code
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_every_contender_gets_a_line_and_a_record(capsys, tmp_path):
    out = tmp_path / "bench.json"
    code, text, errors = run(capsys, *TINY, "--threads", "1", "--growth", "--out", out)
    assert (code, errors) == (0, "")
    result = GradnormResult.read(out)
    assert result.complete
    assert result.environment["torch"]
    assert (result.rounds, result.seed, result.threads, result.device) == (1, 0, 1, "cpu")
    (load,) = result.workloads
    assert load.batch == 2
    assert [m.contender for m in load.measurements] == list(STANDARD)
    assert [g.contender for g in load.growth] == ["plain", "ours"]
    lines = text.splitlines()
    for m in load.measurements:
        assert any(line.startswith(m.contender) for line in lines)
        assert m.status in ("measured", "absent"), m.note
    ours = load.measurements[-1]
    assert ours.relative_error < 1e-4
    assert ours.peak_mib > 0
    assert ours.time_ratio > 0
    assert f"Numbers: {out}" in text


def test_smoke_is_a_small_run_of_the_cifar_net(capsys, tmp_path):
    out = tmp_path / "bench.json"
    code, text, _ = run(
        capsys, "bench", "gradnorm", "--smoke", "--contenders", "forward", "--quiet", "--out", out
    )
    assert code == 0
    result = GradnormResult.read(out)
    assert result.rounds == 1
    assert [(load.workload, load.batch) for load in result.workloads] == [("cifar-resnet18", 2)]
    assert "cifar-resnet18: 11.2 M parameters" in text


def test_missing_peers_are_noted_with_the_remedy(capsys, monkeypatch):
    for package in ("opacus", "backpack"):
        for module in [m for m in sys.modules if m.split(".")[0] == package]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, package, None)
    code, text, _ = run(capsys, *TINY, "--contenders", "opacus,backpack,ours")
    assert code == 0
    remedy = "run pip install 'steepest[bench]'"
    assert f"opacus: absent: opacus is not installed: {remedy}" in text
    assert f"backpack: absent: backpack is not installed: {remedy}" in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--models", "resnet51"], "unknown workload 'resnet51': did you mean 'resnet50'"),
        (["--models", " , "], "--models ' , ': give names separated by commas"),
        (["--contenders", "our"], "unknown contender 'our': did you mean 'ours'"),
        (["--batch-size", "0"], "--batch-size 0: at least 1 is needed"),
        (["--rounds", "-1"], "--rounds -1: at least 1 is needed"),
        (["--precision", "tf32"], "use fp32 or bf16 on a CPU"),
        (["--device", "tpu"], "device 'tpu' is not known"),
        (["--out", "."], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, argv, message):
    code, out, errors = run(capsys, "bench", "gradnorm", *argv)
    assert code == 2
    assert out == ""
    (line,) = errors.splitlines()
    assert line.startswith("steepest: error: ")
    assert message in line


@pytest.mark.parametrize("limit", ["nan", "-1", "0", "inf"])
def test_a_limit_is_a_number_of_seconds(capsys, limit):
    argv = ["--smoke", "--strategies", "margin", "--limit", limit]
    code, out, errors = run(capsys, "bench", "strategies", *argv)
    assert (code, out) == (2, "")
    assert "give a number of seconds above 0" in errors


def test_the_kind_of_measurement_must_be_named(capsys):
    code, _, errors = run(capsys, "bench")
    assert code == 2
    assert "WHAT" in errors


def test_ctrl_c_keeps_what_was_measured(capsys, tmp_path, monkeypatch):
    timed = []
    time = Trial.time

    def stop_at_the_third(self, case):
        if len(timed) == 2:
            raise KeyboardInterrupt
        timed.append(self.name)
        time(self, case)

    monkeypatch.setattr(Trial, "time", stop_at_the_third)
    out = tmp_path / "bench.json"
    code, text, errors = run(capsys, *TINY, "--contenders", "forward,plain,ours", "--out", out)
    assert code == 130
    assert errors == f"steepest: stopped; what was measured so far is in {out}\n"
    result = GradnormResult.read(out)
    assert not result.complete
    statuses = {m.contender: m.status for m in result.workloads[0].measurements}
    assert statuses == {"forward": "measured", "plain": "measured", "ours": "unfinished"}
    assert "plain" in text


def test_the_command_is_recorded_as_it_was_typed(capsys, tmp_path, monkeypatch):
    out = tmp_path / "bench.json"
    argv = [*TINY, "--contenders", "forward", "--seed", "3", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["another", "program"])
    assert run(capsys, *argv)[0] == 0
    table = json.loads(out.read_text())
    assert table["command"].startswith("steepest bench gradnorm --models small-cnn")
    assert table["seed"] == 3

"""Results on disk are read back as they were, or refused; as text they say what they are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from steepest.bench.gradnorm_result import GradnormResult, Growth, Measurement, WorkloadResult
from steepest.bench.gradnorm_table import describe_gradnorm
from steepest.bench.storage import SCHEMA
from steepest.core.tables import to_table
from steepest.errors import ConfigError, InputError, UnknownNameError

PLAIN = Measurement("plain", "measured", "", 4, 2, (0.03, 0.02), 0.02, 50.0, 1.0, 8.0, 1.0)
OURS = Measurement(
    "ours", "measured", "", 4, 2, (0.01, 0.02), 0.01, 100.0, 0.5, 4.0, 0.5, relative_error=3e-7,
    first_seconds=0.015, first_ratio=0.75,
)  # fmt: skip
PEER = Measurement("backpack", "unsupported", "BatchL2Grad has no rule for LayerNorm")
LOAD = WorkloadResult("small-cnn", 24_000, (3, 16, 16), 4, "channels last", 3, (PLAIN, OURS, PEER))
RESULT = GradnormResult(
    SCHEMA,
    "steepest bench gradnorm",
    {"torch": "2.13.0", "device": "cpu"},
    "cpu",
    seed=0,
    complete=True,
    precision="fp32",
    threads=1,
    clock="cpu",
    rounds=2,
    workloads=(LOAD,),
)
GROWTH = Growth("ours", (1, 2), (0.02, 0.01), (2, 4), (0.02, 0.04), 1.0)


def test_a_result_is_read_back_as_it_was_saved(tmp_path):
    path = tmp_path / "deep" / "bench.json"
    result = replace(RESULT, workloads=(replace(LOAD, growth=(GROWTH,)),))
    result.save(path)
    assert GradnormResult.read(path) == result


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"schema": 99}, InputError, "schema 1: measure again"),
        ({"rounds": "many"}, ConfigError, "rounds = 'many'"),
        ({"speed": 3}, UnknownNameError, "unknown key"),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, change, error, message):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(to_table(RESULT) | change))
    with pytest.raises(error, match=message):
        GradnormResult.read(path)


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(InputError, match="bench"):
        GradnormResult.read(path)


def test_numbers_that_json_has_no_word_for_are_not_written(tmp_path):
    load = replace(LOAD, measurements=(replace(PLAIN, peak_mib=float("nan")),))
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(RESULT, workloads=(load,)).save(tmp_path / "bench.json")


def test_the_text_holds_the_numbers_and_the_conditions():
    lines = describe_gradnorm(RESULT).splitlines()
    title = lines[0]
    for part in (
        "small-cnn: 24.0 k parameters",
        "batch 4",
        "3 × 16 × 16",
        "fp32",
        "channels last",
        "1 thread;",
    ):
        assert part in title
    assert "best of 2 by cpu time" in title
    row = next(line for line in lines if line.startswith("ours"))
    assert row.split() == ["ours", "10", "0.50", "0.75", "100", "4.0", "0.50", "3.0e-07"]


def test_the_text_says_why_a_contender_has_no_numbers():
    text = describe_gradnorm(RESULT)
    assert "  backpack: unsupported: BatchL2Grad has no rule for LayerNorm" in text
    row = next(line for line in text.splitlines() if line.startswith("backpack "))
    assert row.split()[1:] == ["–"] * 7


def test_the_text_shows_growth_and_notes():
    load = replace(LOAD, growth=(GROWTH,), note="stopped, out of memory: x")
    text = describe_gradnorm(replace(RESULT, workloads=(load,)))
    assert "to the power of: ours 1.000" in text
    assert "stopped, out of memory" in text

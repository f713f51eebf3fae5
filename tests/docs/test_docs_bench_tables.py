"""Tables of measurements say what the files hold, and say so where there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_tables import NOT_YET, benchmarks, choosing, cycle, library, performance, precision

from steepest.bench.cycle import CycleMeasurement, CycleResult
from steepest.bench.gradnorm_result import GradnormResult, Growth, Measurement, WorkloadResult
from steepest.bench.precision import Agreement, PrecisionMeasurement, PrecisionResult
from steepest.bench.strategies import StrategiesResult, StrategyMeasurement
from steepest.experiment.config import load_config
from steepest.strategies import create

ENVIRONMENT = {"torch": "2.13.0", "device": "cpu", "processor": "A CPU", "opacus": None}


def measured(name, ratio, note=""):
    return Measurement(
        name, "measured", note, 4, 1, (ratio,), ratio, 1234.5 / ratio, ratio, 2.5, 0.5, 3e-7
    )


PLAIN, OURS, LOOP = measured("plain", 1.0), measured("ours", 0.9), measured("loop", 2.0, "4 alone")
PEER = Measurement("backpack", "unsupported", "no rule for a | b")
LOAD = WorkloadResult(
    "small-cnn", 24_346, (3, 16, 16), 4, "contiguous", 3, (PLAIN, LOOP, PEER, OURS)
)
RESULT = GradnormResult(
    1, "steepest bench gradnorm", ENVIRONMENT, "cpu", 7, True, "fp32", 1, "cpu", 2, (LOAD,)
)
MARK = PrecisionResult(
    1, "steepest bench precision", ENVIRONMENT, "cpu", 0, True, 1, "digits", "digits", "small-cnn",
    "l2", 40, 50, {"accuracy": 0.8}, 1000, 0.1, 32,
    (
        PrecisionMeasurement("fp32", "measured", "", Agreement(1.0, 100, 100, 0, 0), 1e-7, 2e-7),
        PrecisionMeasurement("bf16", "failed", "ended by SIGILL"),
    ),
)  # fmt: skip


def rows(text):
    lines = (line for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


@pytest.mark.parametrize("make", [performance, benchmarks, library, precision, choosing, cycle])
def test_without_files_nothing_was_measured(make, tmp_path):
    assert make(tmp_path) == NOT_YET


def test_kinds_of_models_have_a_row_with_the_first_call_each(tmp_path):
    first = replace(OURS, first_ratio=1.75, note="2 of 9 parameters by the loop")
    load = replace(LOAD, measurements=(PLAIN, LOOP, first))
    replace(RESULT, workloads=(load,)).save(tmp_path / "library-cpu.json")
    assert rows(library(tmp_path))[2] == [
        "`small-cnn`", "4", "1.75", "0.90", "2.00", "–", "0.50", "2 of 9 parameters by the loop",
    ]  # fmt: skip


def test_the_headline_is_ours_beside_the_quickest_other_way(tmp_path):
    RESULT.save(tmp_path / "gradnorm-cpu.json")
    text = performance(tmp_path)
    assert rows(text)[0] == ["model", "CPU, 1 thread, fp32"]
    assert rows(text)[2] == ["`small-cnn`", "**0.90**, 0.50 (loop alone 2.00)"]
    assert "Measured on: A CPU, engine 1, torch 2.13.0 (" in text
    slower = replace(LOOP, contender="vmap", time_ratio=3.0)
    both = replace(LOAD, measurements=(*LOAD.measurements, slower))
    replace(RESULT, workloads=(both,)).save(tmp_path / "gradnorm-cpu.json")
    assert rows(performance(tmp_path))[2][1] == "**0.90**, 0.50 (loop 2.00)"


def test_files_of_equal_conditions_share_a_column_unless_they_overlap(tmp_path):
    RESULT.save(tmp_path / "gradnorm-cpu.json")
    other = replace(LOAD, workload="vgg16", measurements=(PLAIN, replace(OURS, time_ratio=None)))
    replace(RESULT, workloads=(other,)).save(tmp_path / "gradnorm-cpu-b.json")
    replace(RESULT, precision="bf16").save(tmp_path / "gradnorm-cpu-bf16.json")
    found = rows(performance(tmp_path))
    assert found[0] == ["model", "CPU, 1 thread, fp32", "CPU, 1 thread, bf16"]
    assert [row[0] for row in found[2:]] == ["`vgg16`", "`small-cnn`"]
    assert found[2][1:] == ["measured", "–"]
    RESULT.save(tmp_path / "gradnorm-cpu-again.json")
    assert "CPU, 1 thread, fp32 (gradnorm-cpu)" in rows(performance(tmp_path))[0]


def test_a_gpu_is_named_with_its_layout(tmp_path):
    load = replace(LOAD, layout="channels last")
    where = {**ENVIRONMENT, "device": "NVIDIA H200", "engine": 4}
    gpu = replace(RESULT, device="cuda", environment=where, precision="tf32", workloads=(load,))
    gpu.save(tmp_path / "gradnorm-h200.json")
    text = performance(tmp_path)
    assert rows(text)[0][1] == "NVIDIA H200, tf32, channels last"
    assert "Measured on: NVIDIA H200, engine 4, torch 2.13.0 (" in text


def test_a_file_is_shown_with_its_conditions_and_every_contender(tmp_path):
    RESULT.save(tmp_path / "gradnorm-cpu.json")
    text = benchmarks(tmp_path)
    for part in (
        "### CPU, 1 thread, fp32: small-cnn\n",
        "A CPU, engine 1, torch 2.13.0; 1 thread; fp32 on all sides; best of 2 rounds",
        "by core time; seed 7.",
        "`steepest bench gradnorm`",
        "**small-cnn**: 0.02 M parameters, n = 4 samples of 3 × 16 × 16, contiguous",
    ):
        assert part in text
    _, _, plain, loop, peer, ours = rows(text)
    assert plain[:3] == ["`plain`", "1.00", "1,234"]
    assert loop[-1] == "4 alone"
    assert peer == ["`backpack`", *["–"] * 5, r"unsupported: no rule for a \| b"]
    assert ours == ["`ours`", "0.90", "1,372", "0.50", "2.5", "3.0e-07", "–"]
    assert "Unfinished" not in text


def test_ours_is_compared_with_the_compiled_plain_pass_as_well(tmp_path):
    pair = (measured("plain-compiled", 0.5), measured("ours-compiled", 0.4))
    load = replace(LOAD, measurements=(PLAIN, OURS, *pair))
    replace(RESULT, workloads=(load,)).save(tmp_path / "gradnorm-cpu.json")
    line = "As multiples of `plain-compiled`: `ours` 1.80, `ours-compiled` 0.80.\n"
    assert line in benchmarks(tmp_path)
    assert "(" not in rows(performance(tmp_path))[2][1]


def test_growth_and_notes_are_shown(tmp_path):
    growth = (Growth("ours", (1, 2), (0.02, 0.01), (2, 4), (0.5, 1.25), 1.02),)
    load = replace(LOAD, growth=growth, note="stopped, out of memory: x")
    replace(RESULT, complete=False, workloads=(load,)).save(tmp_path / "gradnorm-cpu.json")
    text = benchmarks(tmp_path)
    assert "| 2 | 10 |" in text
    assert "| 4 | 1.25 |" in text
    assert "to the power of: `ours` 1.020." in text
    assert "stopped, out of memory: x" in text
    assert "**Unfinished.** A CPU" in text


def test_precisions_are_shown_with_what_was_trained(tmp_path):
    MARK.save(tmp_path / "precision-cpu.json")
    text = precision(tmp_path)
    assert "### digits, CPU\n" in text
    assert "small-cnn after 50 epochs on 40 labels of digits (test accuracy 0.8000)" in text
    _, _, fp32, bf16 = rows(text)
    assert fp32[:4] == ["fp32", "1.000000", "100 of 100", "100.0 %"]
    assert bf16 == ["bf16", *["–"] * 7, "failed: ended by SIGILL"]
    assert benchmarks(tmp_path) == NOT_YET


def choices(*found, complete=True):
    return StrategiesResult(
        schema=1, command="steepest bench strategies", environment=ENVIRONMENT, device="cpu",
        threads=2, features=512, classes=10, labelled=5000, k=1000, seed=0, complete=complete,
        measurements=found,
    )  # fmt: skip


def choice(name, kind="ours", status="measured", seconds=1.5):
    memory = seconds and 20.0
    return StrategyMeasurement(name, kind, 10_000, status, choose_seconds=seconds, peak_mib=memory)


def test_choosing_is_shown_by_pool_with_both_ways(tmp_path):
    plain = choice("badge", "straightforward", "out-of-memory", None)
    choices(choice("badge"), plain).save(tmp_path / "strategies-cpu.json")
    text = choosing(tmp_path)
    assert "### 10,000 samples, CPU, 2 threads\n" in text
    assert "1,000 samples chosen, 5,000 labelled, 512 features, 10 classes; cpu, 2 threads" in text
    head, _, ours, plain = rows(text)
    assert head == ["strategy", "way", "10,000: s", "MiB", "exponent", "note"]
    assert ours == ["`badge`", "ours", "1.5", "20", "–", "–"]
    assert plain[2:] == ["out-of-memory", "–", "–", "10,000: out-of-memory"]


def test_files_of_equal_conditions_share_a_table_and_fill_what_was_unfinished(tmp_path):
    late = choice("qbc", status="unfinished", seconds=None)
    choices(choice("tod"), late, complete=False).save(tmp_path / "strategies-a.json")
    assert "**Unfinished.** 1,000" in choosing(tmp_path)
    again = replace(choices(choice("qbc", seconds=3.0)), command="steepest bench again")
    again.save(tmp_path / "strategies-b.json")
    text = choosing(tmp_path)
    assert [row[:3] for row in rows(text)[2:]] == [["`qbc`", "ours", "3"], ["`tod`", "ours", "1.5"]]
    assert "`steepest bench strategies`\n\n`steepest bench again`\n" in text
    assert "Unfinished" not in text
    replace(again, k=7).save(tmp_path / "strategies-b.json")
    assert choosing(tmp_path).count("### 10,000 samples") == 2


def test_a_cycle_says_what_a_variant_changes_and_why_a_number_is_missing(tmp_path):
    config = load_config("digits").to_table()
    config.pop("strategy")
    options = create("vaal", {"epochs": 10}).options()
    rows_of_cycle = (
        CycleMeasurement("random", "measured", "", {}, 2.0, True, None, 0.1, 5.0, 0.9),
        CycleMeasurement("vaal-10", "measured", "", options, 2.0, False, 7.25, 0.2, 6.0, 0.9),
        CycleMeasurement("batchbald", "refused", "k is above limit"),
    )
    CycleResult(1, "steepest bench cycle", ENVIRONMENT, "cpu", 0, True, config, rows_of_cycle).save(
        tmp_path / "cycle-cpu.json"
    )
    text = cycle(tmp_path)
    assert rows(text)[2] == ["`random`", "2.0", "yes", "–", "0.10", "5", "0.9000", "–"]
    assert rows(text)[3][3:] == ["7.25", "0.20", "6", "0.9000", "epochs = 10"]
    assert rows(text)[4][-1] == "refused: k is above limit"
    assert "A CPU, engine 1, torch 2.13.0" in text

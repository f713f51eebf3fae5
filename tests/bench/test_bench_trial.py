"""One contender's trouble is recorded in one line, and ratios are to the plain pass."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar
from unittest.mock import patch

import pytest
import torch
from fake_contenders import FakeTime, timed_contender
from torch import nn

from steepest.bench.case import Case
from steepest.bench.contenders.base import Step
from steepest.bench.gradnorm_result import Measurement
from steepest.bench.trial import Trial, with_ratios


class FakeGauge:
    """Runs as often as asked, and remembers that."""

    calls: ClassVar[list] = []

    def __init__(self, device):
        pass

    def reset(self):
        self.calls.append("reset")

    def peak_bytes(self, work, calls):
        self.calls.append(calls)
        for _ in range(calls):
            work()
        return 7


@pytest.fixture
def case():
    return Case(nn.Linear(4, 3).eval(), torch.ones(2, 4))


def measured(name, seconds, mib):
    return Measurement(
        name, "measured", seconds_per_sample=seconds, samples_per_second=1 / seconds, peak_mib=mib
    )


def test_ratios_are_multiples_of_the_plain_pass():
    rows = with_ratios([measured("loop", 6.0, 3.0), measured("plain", 2.0, 12.0)])
    assert [(row.time_ratio, row.memory_ratio) for row in rows] == [(3.0, 0.25), (1.0, 1.0)]


@pytest.mark.parametrize("unit", [[], [Measurement("plain", "failed", "broken")]])
def test_without_a_plain_pass_there_are_no_ratios(unit):
    (row, *_) = with_ratios([measured("ours", 1.0, 1.0), *unit])
    assert row.time_ratio is None
    assert row.memory_ratio is None
    assert row.seconds_per_sample == 1.0


@pytest.mark.parametrize(
    ("error", "status", "note"),
    [
        (ModuleNotFoundError("No module", name="opacus"), "absent", "opacus is not installed"),
        (NotImplementedError("no rule\nfor LayerNorm"), "unsupported", "no rule for LayerNorm"),
        (MemoryError("needs 9 GiB"), "out-of-memory", "needs 9 GiB"),
        (torch.OutOfMemoryError("CUDA out"), "out-of-memory", "CUDA out"),
        (KeyError("x"), "failed", "KeyError: 'x'"),
    ],
)
def test_an_error_of_a_contender_becomes_its_status(case, error, status, note):
    def prepare(_):
        raise error

    trial = Trial("peer")
    trial.get_ready(prepare, case, torch.ones(2))
    trial.time(case)
    found = trial.measurement()
    assert found.status == status
    assert found.note.startswith(note)
    assert "\n" not in found.note
    assert found.seconds_per_sample is None
    assert found.round_seconds == ()


def test_a_long_message_is_cut(case):
    def prepare(_):
        raise NotImplementedError("no " * 200)

    trial = Trial("peer")
    trial.get_ready(prepare, case, torch.ones(2))
    assert len(trial.note) == 200
    assert trial.note.endswith("…")


def test_lack_of_memory_that_caused_another_error_is_still_that(case):
    def prepare(_):
        raise ValueError("2 samples do not fit") from torch.OutOfMemoryError("full")

    trial = Trial("ours")
    trial.get_ready(prepare, case, torch.ones(2))
    assert (trial.status, trial.note) == ("out-of-memory", "2 samples do not fit")


def test_an_error_in_a_later_round_keeps_the_rounds_before(case):
    fake = FakeTime()
    case = Case(case.model, case.inputs, clock=fake.clock)
    trial = Trial("ours")
    trial.get_ready(timed_contender(fake, "ours", 1.0), case, torch.ones(2))
    trial.time(case)

    def broken():
        raise torch.OutOfMemoryError("full")

    trial.step = Step(broken, 2)
    trial.time(case)
    assert trial.status == "out-of-memory"
    assert trial.measurement().round_seconds == (0.5,)


def test_a_contender_that_records_itself_is_warm_before_it_is_timed(case):
    fake = FakeTime()
    case = Case(case.model, case.inputs, clock=replace(fake.clock, warm_up=3))
    FakeGauge.calls = []
    trial = Trial("ours")
    with patch("steepest.bench.trial.PeakGauge", FakeGauge):
        trial.get_ready(timed_contender(fake, "ours", 5.0, 5.0, 5.0, 5.0, 1.0), case, torch.ones(2))
    trial.time(case)
    assert FakeGauge.calls == ["reset", 3]
    assert trial.peak == 7
    assert trial.measurement().round_seconds == (0.5,)


def test_the_memory_of_one_that_holds_it_is_that_of_making_it_ready(case):
    FakeGauge.calls = []
    with patch("steepest.bench.trial.PeakGauge", FakeGauge):
        Trial("ours").get_ready(
            lambda _: Step(lambda: None, 2, holds_memory=True), case, torch.ones(2)
        )
    assert FakeGauge.calls == [1]


def test_norms_that_are_not_finite_are_a_failure(case):
    trial = Trial("peer")
    trial.get_ready(
        lambda _: Step(lambda: torch.tensor([1.0, float("nan")]), 2), case, torch.ones(2)
    )
    assert trial.status == "failed"
    assert "NaN" in trial.note


def test_the_error_is_the_largest_relative_one_of_the_checked_samples(case):
    trial = Trial("peer")
    norms = torch.tensor([1.1, 2.0, 70.0])
    trial.get_ready(lambda _: Step(lambda: norms, 3), case, torch.tensor([1.0, 2.0]).double())
    assert trial.measurement().relative_error == pytest.approx(0.1, rel=1e-5)


def test_a_contender_that_was_never_reached_is_unfinished():
    found = Trial("ours").measurement()
    assert found.status == "unfinished"
    assert found.calls is None

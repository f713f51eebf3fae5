"""The whole measurement, with contenders of known cost."""

from __future__ import annotations

import pytest
import torch
from fake_contenders import FakeTime, replace_contender, timed_contender

from steepest.bench.contenders.base import Step
from steepest.bench.gradnorm import GradnormBench, Settings
from steepest.core.progress import SilentProgress
from steepest.errors import InputError, UnknownNameError

CPU = torch.device("cpu")


def settings(**changes):
    base = {
        "workloads": ("small-cnn",),
        "contenders": ("plain", "ours"),
        "device": CPU,
        "rounds": 3,
        "batch": 4,
    }
    return Settings(**(base | changes))


@pytest.fixture
def fake(monkeypatch):
    time = FakeTime()
    # Three calls get ready (norms, memory, count); then one per round.
    replace_contender(monkeypatch, "plain", timed_contender(time, "plain", 9, 9, 9, 8, 4, 6))
    replace_contender(
        monkeypatch, "ours", timed_contender(time, "ours", 9, 9, 9, 2, 3, 7, norms=True)
    )
    return time


def test_ratios_are_of_the_best_rounds(fake):
    bench = GradnormBench(settings(), SilentProgress(), fake.clock)
    result = bench.run()
    (load,) = result.workloads
    plain, ours = load.measurements
    assert plain.round_seconds == (2, 1, 1.5)
    assert plain.seconds_per_sample == 1
    assert ours.seconds_per_sample == 0.5
    assert ours.time_ratio == 0.5
    assert ours.samples_per_second == 2
    assert result.complete
    assert result.clock == "fake"
    assert (load.batch, load.checked, load.parameters) == (4, 3, 24_346)


def test_contenders_take_turns_within_a_round(fake):
    GradnormBench(settings(), SilentProgress(), fake.clock).run()
    assert fake.order[6:] == ["plain", "ours", "ours", "plain", "plain", "ours"]


def test_the_plain_pass_is_always_measured(fake):
    result = GradnormBench(settings(contenders=("ours",)), SilentProgress(), fake.clock).run()
    assert [m.contender for m in result.workloads[0].measurements] == ["plain", "ours"]


def test_a_contender_in_trouble_leaves_the_others_alone(fake, monkeypatch):
    def unsupported(case):
        raise NotImplementedError("no rule for this")

    def full(case):
        def run():
            raise torch.OutOfMemoryError("full")

        return Step(run, case.samples)

    replace_contender(monkeypatch, "backpack", unsupported)
    replace_contender(monkeypatch, "opacus", full)
    names = ("backpack", "plain", "opacus", "ours")
    result = GradnormBench(settings(contenders=names), SilentProgress(), fake.clock).run()
    found = {m.contender: m.status for m in result.workloads[0].measurements}
    assert found == {
        "backpack": "unsupported",
        "plain": "measured",
        "opacus": "out-of-memory",
        "ours": "measured",
    }


def test_what_is_known_is_told_after_each_workload(fake):
    told = []
    both = settings(workloads=("small-cnn", "small-cnn"), rounds=1)
    GradnormBench(both, SilentProgress(), fake.clock).run(told.append)
    assert [(len(known.workloads), known.complete) for known in told] == [(1, False), (2, True)]


def test_a_stop_keeps_the_rounds_that_were_measured(fake, monkeypatch):
    def stopping(case):
        calls = []

        def run():
            calls.append(1)
            fake.seconds += 1
            if len(calls) > 4:
                raise KeyboardInterrupt
            return torch.ones(case.samples)

        return Step(run, case.samples)

    replace_contender(monkeypatch, "ours", stopping)
    replace_contender(monkeypatch, "loop", timed_contender(fake, "loop", 1))
    bench = GradnormBench(
        settings(contenders=("plain", "ours", "loop")), SilentProgress(), fake.clock
    )
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    known = bench.result()
    assert not known.complete
    rounds = {m.contender: len(m.round_seconds) for m in known.workloads[0].measurements}
    assert rounds == {"plain": 1, "ours": 1, "loop": 1}


def test_a_batch_that_does_not_fit_ends_its_workload_alone(fake, monkeypatch):
    def full(case):
        raise torch.OutOfMemoryError("no room for\nthe truth")

    monkeypatch.setattr("steepest.bench.gradnorm.true_norms", full)
    result = GradnormBench(settings(), SilentProgress(), fake.clock).run()
    (load,) = result.workloads
    assert load.note == "stopped, out of memory: no room for the truth"
    assert {m.status for m in load.measurements} == {"unfinished"}


def test_growth_that_fails_loses_nothing_else(fake, monkeypatch):
    def broken(case, rounds):
        raise ValueError("no\nluck")

    monkeypatch.setattr("steepest.bench.gradnorm.measure_growth", broken)
    result = GradnormBench(settings(growth=True), SilentProgress(), fake.clock).run()
    (load,) = result.workloads
    assert load.note == "growth was not measured: ValueError: no luck"
    assert {m.status for m in load.measurements} == {"measured"}


def test_layout_and_threads_reach_the_contenders(monkeypatch):
    seen = []

    def looking(case):
        layout = case.inputs.is_contiguous(memory_format=torch.channels_last)
        weights = [p for p in case.model.parameters() if p.ndim == 4 and p.shape[1] > 1]
        everywhere = all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
        seen.append((layout, everywhere, torch.get_num_threads()))
        return Step(lambda: None, case.samples)

    replace_contender(monkeypatch, "plain", looking)
    before = torch.get_num_threads()
    wanted = settings(contenders=("plain",), channels_last=True, threads=2, rounds=1)
    result = GradnormBench(wanted, SilentProgress()).run()
    assert seen == [(True, True, 2)]
    assert torch.get_num_threads() == before
    assert result.environment["threads"] == result.threads == 2
    assert result.workloads[0].layout == "channels last"
    assert result.clock == "wall"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"workloads": ("resnet51",)}, UnknownNameError, "did you mean 'resnet50'"),
        ({"contenders": ("our",)}, UnknownNameError, "did you mean 'ours'"),
        ({"batch": 0}, InputError, "--batch-size 0"),
        ({"threads": 0}, InputError, "--threads 0"),
        ({"rounds": 0}, InputError, "--rounds 0"),
        ({"precision": "tf32"}, InputError, "use fp32 or bf16"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(changes, error, message):
    with pytest.raises(error, match=message):
        settings(**changes)

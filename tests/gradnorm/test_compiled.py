"""Compiled measurements: the same numbers, whatever changes between the batches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from nets import Mixed, Reused, Transformer, sequences, vectors
from test_explain import Hidden
from torch import Tensor, nn
from torch._inductor.exc import InductorError

import steepest
from steepest.errors import InputError, ModelError
from steepest.gradnorm import GradientNorms, reference_norms
from steepest.gradnorm.engine import Engine


@pytest.fixture
def programs(monkeypatch):
    """Run what would be compiled as it was traced, and collect it; no compiler is needed."""
    traced = []

    def compile_nothing(program, **_options):
        traced.append(program)
        return program

    monkeypatch.setattr(torch, "compile", compile_nothing)
    return traced


def tiny() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).eval()


def check(norms: GradientNorms, model: nn.Module, x, *args, **kwargs) -> None:
    torch.testing.assert_close(
        norms(x, kwargs.get("targets")), steepest.gradient_norms(model, x, *args, **kwargs)
    )


@pytest.mark.parametrize(
    ("kind", "draw", "dtype"),
    [
        (Transformer, sequences, torch.float64),
        (Reused, vectors, torch.float64),
        (Mixed, sequences, torch.float64),
        (Reused, vectors, torch.float32),
        (Transformer, sequences, torch.float32),
        (Mixed, sequences, torch.float32),
    ],
)
def test_a_compiled_measurement_gives_what_the_engine_gives(programs, kind, draw, dtype):
    torch.manual_seed(0)
    model, x = kind().to(dtype).eval(), draw(5).to(dtype)
    norms = GradientNorms(model, compiled=True)
    check(norms, model, x)
    check(norms, model, draw(5).to(dtype))
    assert len(programs) == 1


def test_weights_that_change_between_calls_are_seen(programs):
    model, x = tiny(), vectors(5)
    norms = GradientNorms(model, compiled=True)
    before = norms(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    check(norms, model, x)
    assert not torch.allclose(norms(x), before)
    assert len(programs) == 1
    model[0].weight.data = model[0].weight.data.flip(0)
    check(norms, model, x)
    assert len(programs) == 2


class Scaled(nn.Module):
    """A layer, a buffer and a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.number = nn.Linear(6, 4), 1.0
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * self.scale * self.number


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "number", 3.0),
        lambda model: setattr(model, "scale", torch.full((4,), 5.0)),
        lambda model: model.scale.fill_(5.0),
        lambda model: model.load_state_dict(Scaled().state_dict(), assign=True),
        lambda model: setattr(model, "head", nn.Linear(6, 4).eval()),
        lambda model: model.head.bias.requires_grad_(requires_grad=False),
    ],
    ids=["number", "buffer", "buffer in place", "assigned", "layer", "frozen"],
)
def test_a_model_that_is_changed_has_no_old_program(programs, change):
    torch.manual_seed(0)
    model, x = Scaled().eval(), vectors(5)
    norms = GradientNorms(model, compiled=True, norm="per-tensor")
    before = norms(x)
    change(model)
    expected = steepest.gradient_norms(model, x, norm="per-tensor")
    assert expected.shape != before.shape or not torch.allclose(expected, before)
    torch.testing.assert_close(norms(x), expected)


def test_a_model_that_is_put_into_training_mode_is_refused_behind_a_program(programs):
    model = tiny()
    norms = GradientNorms(model, compiled=True)
    norms(vectors(5))
    model.train()
    with pytest.raises(ModelError, match="training mode"):
        norms(vectors(5))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.double(),
        lambda model: model.bfloat16(),
        lambda model: setattr(model[2], "weight", nn.Parameter(torch.randn(5, 12))),
        lambda model: setattr(model[2].weight, "data", torch.randn(5, 12)),
    ],
    ids=["double", "half", "another weight", "the same weight of another shape"],
)
def test_a_program_does_not_look_at_weights_that_it_was_not_made_for(programs, change):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3, bias=False)).eval()
    tokens = torch.randint(9, (5, 3))
    norms = GradientNorms(model, compiled=True)
    norms(tokens)
    change(model)
    check(norms, model, tokens)
    assert len(programs) == 2


class Named(nn.Module):
    """Treats its inputs differently."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head(self.left(left).tanh() + self.right(right))


def test_inputs_by_name_may_come_in_any_order(programs):
    torch.manual_seed(0)
    model, left, right = Named().eval(), vectors(5), vectors(5)
    norms = GradientNorms(model, compiled=True)
    check(norms, model, {"left": left, "right": right})
    check(norms, model, {"right": right, "left": left})
    check(norms, model, {"left": right, "right": left})


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.inner, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.enter(x)).relu()
        return self.head((self.inner(x) + x).relu().mean((2, 3)))


def test_a_program_works_on_whole_batches_where_samples_were_batches_of_one(programs):
    """Compilers would copy activations between the two shapes, where channels come last."""
    torch.manual_seed(0)
    model = Residual().double().eval().to(memory_format=torch.channels_last)
    x = torch.randn(5, 3, 6, 6).double().contiguous(memory_format=torch.channels_last)
    check(GradientNorms(model, compiled=True), model, x)
    (program,) = programs
    rectified = {
        (str(node.target), tuple(node.meta["val"].shape))
        for node in program.graph.nodes
        if str(node.target) in {"aten.relu.default", "aten.threshold_backward.default"}
    }
    assert {shape for _, shape in rectified} == {(5, 4, 6, 6)}
    assert len(rectified) == 2


def test_results_are_the_callers_own(programs):
    model = tiny()
    norms = GradientNorms(model, compiled=True, norm="per-tensor")
    first = norms(vectors(5))
    kept = first.clone()
    norms(vectors(5))
    assert torch.equal(first, kept)


def test_another_batch_size_has_a_program_of_its_own(programs):
    model = tiny()
    norms = GradientNorms(model, compiled=True)
    for samples in (5, 3, 5, 3, 1):
        check(norms, model, vectors(samples))
    assert len(programs) == 3


def test_microbatches_use_the_program_again(programs):
    model, x = tiny(), vectors(11)
    norms = GradientNorms(model, compiled=True, microbatch=4)
    check(norms, model, x)
    assert len(programs) == 2  # Two batches of four, one of three.


def test_targets_are_arguments_of_the_program(programs):
    model, x = tiny(), vectors(5)
    norms = GradientNorms(model, "cross-entropy", compiled=True)
    for targets in (torch.zeros(5, dtype=torch.long), torch.arange(5) % 4):
        check(norms, model, x, "cross-entropy", targets=targets)
    assert len(programs) == 1
    with pytest.raises(InputError):
        norms(x)


def test_targets_out_of_range_are_refused_by_a_program_too(programs):
    norms = GradientNorms(tiny(), "cross-entropy", compiled=True)
    norms(vectors(5), torch.arange(5) % 4)
    with pytest.raises(InputError, match="4 classes"):
        norms(vectors(5), torch.tensor([0, 1, 2, 3, 9]))


def test_losses_of_the_users_own_are_traced(programs):
    def spread(outputs):
        return outputs.var(1)

    model = tiny()
    check(GradientNorms(model, spread, compiled=True), model, vectors(5), spread)
    assert len(programs) == 1


def test_outputs_and_inputs_may_be_dicts(programs):
    torch.manual_seed(0)
    model, x = Mixed().double().eval(), {"x": sequences(4).double()}
    check(GradientNorms(model, compiled=True), model, x)
    assert len(programs) == 1


def test_a_parameter_that_takes_the_whole_model_is_measured_by_the_engine(programs):
    model = tiny()
    model[0].weight.register_hook(lambda g: g * 2)
    norms = GradientNorms(model, compiled=True)
    for _ in range(2):
        check(norms, model, vectors(5))
    assert programs == []


def test_a_parameter_that_falls_out_on_the_way_is_measured_by_the_engine(programs):
    torch.manual_seed(0)
    model = Hidden().eval()
    check(GradientNorms(model, compiled=True), model, vectors(5)[:, :4])
    assert programs == []


def test_a_batch_whose_sums_cancel_is_measured_by_the_engine(programs, monkeypatch):
    honest = Engine.traceable

    def doubtful(self, inputs, losses):
        outputs, (squares,), _ = honest(self, inputs, losses)
        return outputs, [squares * 0], torch.ones((), dtype=torch.bool)

    monkeypatch.setattr(Engine, "traceable", doubtful)
    model = tiny()
    check(GradientNorms(model, compiled=True), model, vectors(5))
    assert len(programs) == 1


@pytest.mark.parametrize(
    "error",
    [
        InductorError(RuntimeError("no C++ compiler"), lambda: None),
        FileNotFoundError("g++"),
        ImportError("triton"),
    ],
)
def test_without_a_compiler_the_engine_measures(monkeypatch, error):
    asked = []

    def compile_later(_program, **_options):
        def first_run(*_tensors):
            asked.append(1)
            raise error

        return first_run

    monkeypatch.setattr(torch, "compile", compile_later)
    model = tiny().double()
    norms = GradientNorms(model, compiled=True)
    for _ in range(3):
        x = vectors(5).double()
        torch.testing.assert_close(norms(x), reference_norms(model, x))
    assert len(asked) == 1


def test_memory_that_runs_out_in_a_program_is_not_taken_for_a_lack_of_compilers(monkeypatch):
    def compile_greedily(program, **_options):
        def run(*tensors):
            if len(tensors[0]) > 2:
                raise torch.OutOfMemoryError("out of memory")
            return program(*tensors)

        return run

    monkeypatch.setattr(torch, "compile", compile_greedily)
    model, x = tiny(), vectors(5)
    with pytest.raises(InputError, match="do not fit into memory"):
        GradientNorms(model, compiled=True)(x)
    check(GradientNorms(model, compiled=True, microbatch="auto"), model, x)


def test_the_model_is_left_as_found(programs):
    model, x = tiny(), vectors(5)
    model[0].bias.requires_grad_(requires_grad=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    norms = GradientNorms(model, compiled=True)
    norms(x)
    norms(x)
    assert [p.requires_grad for p in model.parameters()] == [True, False, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own parts
def test_a_real_compiler_gives_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    ).eval()
    norms = GradientNorms(model, compiled=True)
    x = torch.randn(5, 2, 4, 4)
    check(norms, model, x)
    with torch.no_grad():
        model[0].weight.mul_(2)
    check(norms, model, x)


@pytest.mark.slow
def test_a_machine_without_a_compiler_measures_all_the_same(tmp_path):
    code = """
import torch
from torch import nn
from steepest.gradnorm import GradientNorms, reference_norms
torch.manual_seed(0)
model, x = nn.Linear(6, 4).double().eval(), torch.randn(5, 6).double()
torch.testing.assert_close(GradientNorms(model, compiled=True)(x), reference_norms(model, x))
"""
    missing = {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code]
    subprocess.run(command, env={**os.environ, **missing}, check=True, timeout=300)

"""Every contender measures the same thing: the norms that double precision gives."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from steepest.bench.accuracy import largest_relative_error, true_norms
from steepest.bench.case import Case, numerics
from steepest.bench.contenders.base import COMPILED, CONTENDERS, STANDARD
from steepest.bench.contenders.stand_ins import check_same_function, with_stand_ins
from steepest.bench.library_models import TextEncoder
from steepest.bench.trained_weights import settle
from steepest.bench.workloads import find_workload

NEEDS = {"opacus": "opacus", "opacus-ghost": "opacus", "backpack": "backpack"}
WITH_NORMS = ("loop", "vmap", "opacus", "opacus-ghost", "backpack", "ours")


class Branches(nn.Module):
    """What nets for images, volumes and segmentation have in common, in small."""

    def __init__(self, dimensions):
        super().__init__()
        conv = {2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
        norm = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dimensions]
        self.stem = conv(2, 4, 3, padding=2, dilation=2, bias=False)
        self.norm = norm(4)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.side = conv(4, 4, 1)
        self.head = conv(4, 3, 1)

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        return self.head(self.drop(x + self.side(x)))


class Tokens(nn.Module):
    """Parameters of its own beside attention, as a vision transformer has."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        return self.head(self.attention(x, x, x, need_weights=False)[0][:, 0])


def make_case(name):
    draws = torch.Generator().manual_seed(1)
    if name == "small-cnn":
        load = find_workload(name)
        return Case(load.make_model(0), load.make_inputs(5, 0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, shape = {
            "pixels": lambda: (Branches(2), (2, 6, 6)),
            "channels-last": lambda: (Branches(2), (2, 6, 6)),
            "voxels": lambda: (Branches(3), (2, 4, 4, 4)),
            "text": lambda: (TextEncoder(3, 30, 8, 2, 2, 8), (6,)),
            "tokens": lambda: (Tokens(), (4, 8)),
        }[name]()
    if name == "text":
        inputs = torch.randint(30, (5, *shape), generator=draws)
    else:
        inputs = torch.randn((5, *shape), generator=draws)
    settle(model, inputs, 0)
    if name == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return Case(model, inputs)


def prepare(name, case):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], exc_type=ImportError)
    return CONTENDERS.get(name)(case)


def test_all_contenders_are_registered():
    assert set(CONTENDERS.names()) == {*STANDARD, *COMPILED}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        (name, model)
        for name in WITH_NORMS
        for model in ("small-cnn", "pixels", "channels-last", "voxels", "text", "tokens")
        if (name, model) not in {("backpack", "text"), ("backpack", "tokens")}
    ],
)
def test_norms_are_those_of_double_precision(name, model):
    case = make_case(model)
    step = prepare(name, case)
    truth = true_norms(case)
    step.run()
    norms = step.run()
    assert norms.shape == (step.samples,)
    # Opacus adds a small constant under its roots.
    assert largest_relative_error(norms, truth) < 1e-4


@pytest.mark.parametrize("model", ["text", "tokens"])
def test_backpack_says_which_layers_it_has_no_rule_for(model):
    step = prepare("backpack", make_case(model))
    with pytest.raises(NotImplementedError, match=r"no rule for .*MultiheadAttention"):
        step.run()


@pytest.mark.parametrize("name", STANDARD)
def test_a_contender_leaves_the_model_as_it_was(name):
    case = make_case("pixels")
    before = {key: value.clone() for key, value in case.model.state_dict().items()}
    prepare(name, case).run()
    after = case.model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(p.grad is None and p.requires_grad for p in case.model.parameters())
    assert not any(module.training for module in case.model.modules())


@pytest.mark.parametrize("name", ["forward", "plain"])
def test_plain_passes_make_no_norms(name):
    assert prepare(name, make_case("pixels")).run() is None


def test_a_compiled_plain_pass_is_the_plain_pass_compiled(monkeypatch):
    compiled = []

    def compile_(function):
        compiled.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_)
    step = prepare("plain-compiled", make_case("pixels"))
    assert step.run() is None
    assert (len(compiled), step.samples, step.note) == (1, 5, "torch.compile")


def test_compiled_norms_ask_for_compiled_norms(monkeypatch):
    asked = {}

    class Norms:
        def __init__(self, model, loss, **options):
            asked.update(options, loss=loss)

        def __call__(self, inputs):
            return torch.ones(len(inputs))

    monkeypatch.setattr("steepest.bench.contenders.compiled.GradientNorms", Norms)
    case = make_case("pixels")
    assert prepare("ours-compiled", Case(case.model, case.inputs, "bf16")).run().shape == (5,)
    assert asked == {"precision": "bf16", "compiled": True, "loss": "entropy"}


def test_the_loop_measures_a_few_samples_and_says_so():
    step = prepare("loop", make_case("small-cnn"))
    assert step.samples == 4
    assert "4 samples" in step.note


def test_vmap_searches_its_chunk_within_the_batch():
    note = prepare("vmap", make_case("pixels")).note
    assert note in {f"chunks of {size}" for size in (1, 2, 4)}


def test_opacus_is_measured_in_the_layout_that_it_can_take():
    assert "contiguous layout" in prepare("opacus", make_case("channels-last")).note
    assert "layout" not in prepare("opacus", make_case("pixels")).note


def test_opacus_says_what_was_replaced_for_it():
    assert "BatchNorm2d" in prepare("opacus", make_case("pixels")).note
    note = prepare("opacus", make_case("tokens")).note
    assert "MultiheadAttention" in note
    assert "functorch" in note


@pytest.mark.parametrize("name", ["opacus", "opacus-ghost", "backpack"])
def test_a_peer_that_is_not_installed_is_a_missing_module(monkeypatch, name):
    for module in [m for m in sys.modules if m.split(".")[0] == NEEDS[name]]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, NEEDS[name], None)
    with pytest.raises(ModuleNotFoundError):
        CONTENDERS.get(name)(make_case("pixels"))


def test_stand_ins_compute_what_the_model_does():
    for name in ("pixels", "voxels", "text", "tokens"):
        case = make_case(name)
        adapted, _ = with_stand_ins(case.model)
        check_same_function(case.model, adapted, case.inputs)


def test_a_model_that_depends_on_its_mode_is_not_taken_for_itself():
    class Moody(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2 if self.training else 1)

    model = Moody(3, 3).eval()
    adapted, _ = with_stand_ins(model)
    with pytest.raises(NotImplementedError, match="something else"):
        check_same_function(model, adapted, torch.ones(2, 3))
    adapted.weight.data.fill_(torch.nan)
    with pytest.raises(NotImplementedError, match="something else"):
        check_same_function(model, adapted, torch.ones(2, 3))


def test_a_norm_layer_without_statistics_has_no_stand_in():
    model = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False)).eval()
    with pytest.raises(NotImplementedError, match="without statistics"):
        with_stand_ins(model)


def test_bf16_is_rougher_than_fp32_on_the_plain_side():
    case = make_case("small-cnn")
    rough = Case(case.model, case.inputs, "bf16")
    with torch.no_grad():
        fine = case.losses(case.model, case.inputs)
        error = (rough.losses(rough.model, rough.inputs) - fine).abs().max()
    assert 1e-5 < float(error) < 1e-1


def numeric_state():
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.get_num_threads(),
    )


def test_numerics_are_set_and_put_back():
    before = numeric_state()
    with numerics("tf32", 2):
        assert numeric_state() == ("high", True, 2)
    with numerics("fp32", 1):
        assert numeric_state() == ("highest", False, 1)
    assert numeric_state() == before


def test_numerics_are_put_back_after_an_error():
    before = numeric_state()
    with pytest.raises(ZeroDivisionError), numerics("tf32", 2):
        _ = 1 / 0
    assert numeric_state() == before

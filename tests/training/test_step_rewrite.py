"""A traced step gives the gradients that autograd gives, before and after it is rewritten."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from steepest.models import build
from steepest.tasks import Classification
from steepest.training.fast.compiled_step import Program, mark_weight_gradients
from steepest.training.fast.rewrite import simplify
from steepest.training.fast.step import Step
from steepest.training.fast.trace import trace_step

PLAIN = torch.autocast("cpu", enabled=False)
HALF = torch.autocast("cpu", dtype=torch.float16)
NORMED, BACKWARD = torch.ops.steepest.normed.default, torch.ops.steepest.normed_backward.default


def always(x):
    return True


def batch(classes=3, size=6, count=6):
    x = torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))
    return x.contiguous(memory_format=torch.channels_last), torch.arange(count) % classes


class Block(nn.Module):
    """A residual block in the way of libraries that save memory: all in place."""

    def __init__(self, inplace=True, shortcut=False):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=inplace)
        mixed = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4))
        self.shortcut = mixed if shortcut else nn.Identity()
        self.inplace = inplace

    def forward(self, x):
        out = self.norm(self.conv(x))
        if self.inplace:
            out += self.shortcut(x)
        else:
            out = self.shortcut(x) + out
        return self.relu(out)


def net(*layers):
    torch.manual_seed(0)
    stem = (nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    model = nn.Sequential(*stem, *layers, *head)
    return model.to(memory_format=torch.channels_last).train()


def gradients_of(model, x, y):
    """Return losses, gradients and buffers by autograd."""
    model = copy.deepcopy(model)
    step = Step(model, Classification(3), torch.optim.SGD(model.parameters(), 0.0), amp=False)
    step(x, y)
    return step.take_total(), [p.grad for p in model.parameters()], list(model.buffers())


def traced(model, autocast=PLAIN, usable=always):
    x, y = batch()
    return trace_step(model, Classification(3), x, y, autocast, usable)


def count(graph, target):
    return sum(node.target is target for node in graph.nodes)


NETS = {
    "in place": lambda: net(Block()),
    "not in place": lambda: net(Block(inplace=False)),
    "with a shortcut": lambda: net(Block(), Block(inplace=False, shortcut=True)),
    "no relu after the norm": lambda: net(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.Tanh()),
    "relu used twice": lambda: net(TwiceUsed()),
    "another activation": lambda: net(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.GELU()),
}


class TwiceUsed(nn.Module):
    """What is normalised is used before and after the ReLU, so that they must stay apart."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        x = self.norm(x)
        return x.relu() + 0.5 * x


@pytest.mark.parametrize("name", NETS)
def test_rewritten_steps_have_the_gradients_of_autograd(name):
    model = NETS[name]()
    x, y = batch()
    total, gradients, buffers = gradients_of(model, x, y)
    trace = traced(model)
    simplify(trace.graph.graph)
    mark_weight_gradients(trace.graph.graph)
    trace.graph.graph.lint()
    trace.graph.recompile()
    with torch.no_grad():
        found = trace.graph(*trace.parameters, *trace.buffers, x, y)
    assert float(found[0]) == pytest.approx(total, rel=1e-5)
    torch.testing.assert_close(found[1:], gradients, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(list(trace.buffers), buffers)


def test_norms_take_in_what_surrounds_them():
    graph = traced(net(Block(), Block(inplace=False, shortcut=True))).graph.graph
    simplify(graph)
    targets = [str(node.target) for node in graph.nodes]
    assert count(graph, NORMED) == count(graph, BACKWARD) == 4
    assert not any("relu" in t or "threshold" in t or "aten.add." in t for t in targets)
    assert sum("foreach_add" in t for t in targets) == 1
    fused = [node.args for node in graph.nodes if node.target is NORMED]
    assert [args[8] for args in fused] == [True, True, False, True]
    assert [args[7] is not None for args in fused] == [False, True, False, True]


def test_nothing_is_left_between_the_layers_of_a_residual_net():
    model = build("cifar-resnet18", 3, 3, 0).to(memory_format=torch.channels_last).train()
    graph = traced(model).graph.graph
    simplify(graph)
    assert count(graph, NORMED) == count(graph, BACKWARD) == 20
    targets = [str(node.target) for node in graph.nodes]
    assert not any("relu" in t or "threshold" in t or "aten.add." in t for t in targets)


def test_tracing_computes_nothing_and_changes_nothing():
    model = net(Block(), nn.Dropout(0.5))
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    traced(model)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_norms_that_do_not_learn_from_the_batch_are_left_alone():
    model = net(Block())
    model[1].eval()
    assert count(traced(model).graph.graph, NORMED) == 1
    assert count(traced(net(Block()), usable=lambda x: False).graph.graph, NORMED) == 0
    plain = net(nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4, track_running_stats=False))
    assert count(traced(plain).graph.graph, NORMED) == 1


def test_frozen_and_unused_parameters_have_no_gradient():
    model = net(Block())
    model[0].weight.requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    trace = traced(model)
    simplify(trace.graph.graph)
    trace.graph.recompile()
    with torch.no_grad():
        _, *found = trace.graph(*trace.parameters, *trace.buffers, *batch())
    names = [name for name, _ in model.named_parameters()]
    without = {name for name, g in zip(names, found, strict=True) if g is None}
    assert without == {"0.weight", "unused"}


def test_a_program_keeps_copies_in_half_precision_up_to_date():
    picks = nn.Conv2d(4, 4, 1, stride=2, bias=False)
    model = net(Block(), picks, nn.BatchNorm2d(4), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = batch()
    trace = trace_step(model, Classification(3), x, y, HALF, always)
    program = Program(trace, optimizer)
    targets = [str(node.target) for node in program._run.graph.nodes]
    assert sum("few_channels" in t for t in targets) == 2
    assert (
        sum("aten.convolution.default" in t for t in targets) == 1
    )  # of three: less stem and picks
    copies = program.update._copies
    assert len(copies) == 5  # every convolution's weight, and the last layer's two
    losses = [float(program(x, y)) for _ in range(4)]
    assert losses[-1] < losses[0]
    parameters = list(model.parameters())
    assert all(torch.equal(c, parameters[i].half()) for i, c in copies.items())
    with torch.no_grad():
        parameters[0].mul_(2)
    program.update.refresh()
    assert torch.equal(copies[0], parameters[0].half())


def test_half_precision_is_near_single():
    model = net(nn.Conv2d(4, 8, 1, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    model[-1] = nn.Linear(8, 3)
    x, y = batch(size=8)
    total, gradients, _ = gradients_of(model, x, y)
    trace = trace_step(model, Classification(3), x, y, HALF, always)
    program = Program(trace, torch.optim.SGD(model.parameters(), 0.0))
    assert float(program(x, y)) == pytest.approx(total, rel=1e-2)
    for p, true in zip(model.parameters(), gradients, strict=True):
        assert p.grad.dtype == torch.float32
        assert float((p.grad - true).norm() / true.norm()) < 3e-2


def test_weight_gradients_run_beside_the_rest_unless_something_changes_in_place():
    graph = traced(net(Block())).graph.graph
    simplify(graph)
    mark_weight_gradients(graph)
    aside = [node for node in graph.nodes if node.meta.get("aside")]
    backward = [n for n in aside if "convolution_backward" in str(n.target)]
    assert [list(n.args[10]) for n in backward] == [[False, True, False]] * 2
    graph = traced(net(Block())).graph.graph
    last = next(node for node in graph.nodes if node.op == "output")
    with graph.inserting_before(last):
        inputs = next(node for node in graph.nodes if node.op == "placeholder")
        graph.call_function(torch.ops.aten.mul_.Tensor, (inputs, 1.0))
    mark_weight_gradients(graph)
    assert not any(node.meta.get("aside") for node in graph.nodes)


def test_constants_are_settled_once():
    model = net(Block())
    x, y = batch()
    task = Classification(3, class_weights=(1.0, 2.0, 0.5))
    trace = trace_step(model, task, x, y, PLAIN, always)
    program = Program(trace, torch.optim.SGD(model.parameters(), 0.0))
    targets = [str(node.target) for node in program._run.graph.nodes]
    assert not any("lift_fresh" in t for t in targets)
    assert sum("_settled" in t for t in targets) == 1
    want = task.training_loss(copy.deepcopy(model)(x), y).sum().item()
    assert float(program(x, y)) == pytest.approx(want, rel=1e-5)
    assert float(program(x, y)) == pytest.approx(want, rel=1e-5)


def test_a_model_that_asks_for_values_cannot_be_traced():
    class Curious(nn.Module):
        def forward(self, x):
            return x * 2 if float(x.detach().sum()) > 0 else x

    with pytest.raises(RuntimeError, match="data-dependent"):
        traced(net(Curious()))


def test_adam_takes_its_own_steps():
    model = net(Block())
    twin = copy.deepcopy(model)
    x, y = batch()
    step = Step(twin, Classification(3), torch.optim.Adam(twin.parameters(), 0.01), amp=False)
    program = Program(traced(model), torch.optim.Adam(model.parameters(), 0.01))
    for _ in range(3):
        program(x, y)
        step(x, y)
    for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-2, atol=1e-3)

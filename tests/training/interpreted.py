"""What the kernels of training are asked to do in a process where Triton interprets them."""

import copy
from contextlib import contextmanager

import torch
from torch import nn


def normed(*args):
    """Return what the operator returns, and the running statistics that it changed."""
    return (*torch.ops.steepest.normed(*args), args[3], args[4])


def normed_backward(*args):
    return torch.ops.steepest.normed_backward(*args)


@contextmanager
def many_parts():
    """Let few rows be shared out among as many programs as on a GPU only many rows are."""
    from steepest.training.fast.kernels import tiles

    before = tiles.CHOICES
    summing = tiles.Summing(8, 64, 4, 2, 256)
    tiles.CHOICES = (tiles.Choice(0, summing, summing, summing, tiles.Applying(16, 512, 4)),)
    try:
        yield
    finally:
        tiles.CHOICES = before


def normed_in_many_parts(x, *args):
    """Return what ``normed`` does, and in how many parts the sums were made."""
    from steepest.training.fast.kernels import tiles

    with many_parts():
        sums = tiles.sums_for(*x.shape, tiles.choice_for(len(x)).moments)
        return normed(x, *args), sums.parts


def normed_backward_in_many_parts(*args):
    with many_parts():
        return normed_backward(*args)


def few_channels(*args):
    return torch.ops.steepest.few_channels(*args)


def few_channels_weight(*args):
    return torch.ops.steepest.few_channels_weight(*args)


def descend(parameters, momenta, gradients, copies, lr, momentum, weight_decay, nesterov):
    from steepest.training.fast.kernels.sgd import Addresses, Update

    table = Addresses(parameters, momenta, copies)
    table.look_at(gradients)
    table.upload()
    table.launch(Update(torch.tensor(lr), momentum, weight_decay, nesterov))
    return parameters, momenta, copies


def train_small_net(steps, compiled):
    """Return the state of a small net after some steps, by fused kernels or plainly."""
    from steepest.tasks import Classification
    from steepest.training.fast.compiled_step import Program
    from steepest.training.fast.step import Step
    from steepest.training.fast.trace import trace_step

    model = copy.deepcopy(SmallNet()).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(
        model.parameters(), torch.tensor(0.05), momentum=0.9, weight_decay=1e-3, foreach=False
    )
    x, y = small_batch()
    task = Classification(3)
    if compiled:
        autocast = torch.autocast("cpu", enabled=False)
        program = Program(trace_step(model, task, x, y, autocast), optimizer)
        losses = [float(program(x, y)) for _ in range(steps)]
        kernels = [n for n in program._run.graph.nodes if "normed" in str(n.target)]
        return model.state_dict(), losses, len(kernels)
    step = Step(model, task, optimizer, amp=False)
    losses = []
    for _ in range(steps):
        step(x, y)
        losses.append(step.take_total())
    return model.state_dict(), losses, 0


class SmallNet(nn.Module):
    """A convolution, a residual block and a linear layer, with fixed weights."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.inner = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.inner_norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(4, 3)
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(0.5 * torch.randn(p.shape, generator=random))

    def forward(self, x):
        x = self.relu(self.norm(self.conv(x)))
        x = self.relu(self.inner_norm(self.inner(x)) + x)
        return self.fc(x.mean((2, 3)))


def small_batch():
    x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    return x.contiguous(memory_format=torch.channels_last), torch.arange(5) % 3


def find(name):
    from steepest.training.fast import kernels  # noqa: F401 - registers the operators

    return globals()[name]

"""One workload made ready: a model, a batch, and how numbers are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from steepest.bench.measuring import Clock
from steepest.gradnorm import Precision
from steepest.modules.batches import logits_of
from steepest.modules.losses import entropy


@dataclass(frozen=True)
class Case:
    """The model, batch and loss that every contender is given.

    Attributes:
        model: In eval mode, on the device, in the layout that is measured.
        inputs: One batch [N, ...] on the device.
        precision: How products are computed.
        clock: Measures time on the device.
    """

    model: nn.Module
    inputs: Tensor
    precision: Precision = "fp32"
    clock: Clock = field(default_factory=Clock)

    @property
    def samples(self) -> int:
        """The number of samples N of the batch."""
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        """Device of the model and the batch."""
        return self.inputs.device

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters whose gradient counts."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def first(self, count: int) -> Case:
        """Return the case with the first samples of its batch alone."""
        return replace(self, inputs=self.inputs[:count])

    def losses(self, model: Callable[[Tensor], object], inputs: Tensor) -> Tensor:
        """Return the entropy of each sample's prediction [N], in the precision of the case."""
        with self.autocast():
            outputs = model(inputs)
        return entropy(logits_of(outputs))

    def autocast(self) -> torch.autocast:
        """Return the context in which products are made as the precision says."""
        return torch.autocast(
            self.device.type,
            dtype=torch.bfloat16,
            enabled=self.precision == "bf16",
            cache_enabled=False,  # A recording must cast anew.
        )


@contextmanager
def numerics(precision: Precision, threads: int) -> Iterator[None]:
    """Set how products are computed and by how many threads, and put it back."""
    before = torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    count = torch.get_num_threads()
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = convolutions
        torch.set_num_threads(count)

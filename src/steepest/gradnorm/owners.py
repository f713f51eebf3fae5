"""Which sample each row of a gradient belongs to, whatever order a model put them in.

A gradient is a sum over the samples, each counted with the weight of its loss. So the row of a
single sample becomes exactly as many times as large as that sample's weight, entry by entry, no
matter what happened on the way. Powers of two scale exactly, so that rounding cannot blur this.

The row of several samples could look so by chance: (1 + 4 + 1) / 3 is 2. It cannot once the
inverse weights are sent, too. For parts of one sign the mean weight times the mean of the inverses
is above 1 (Jensen) unless all weights are equal, and for two samples no parts at all will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from steepest.gradnorm.layout import Layout
from steepest.gradnorm.rules.base import Call, Rows

_POWERS = 64
"""Single precision has room for so many powers of two beyond the size of a gradient."""

_OFF = 1e-5
_OFF_DOUBLE = 1e-13
"""What sums in another order may lose, as a part of a row's largest entry."""


def weights_to_send(samples: int) -> list[Tensor]:
    """Return weights of the losses, each [N]; together they tell the samples apart.

    They are powers of two by the digits of a sample's number, and the inverse of their product.
    """
    base, places, step = _digits(samples)
    numbers = torch.arange(samples).double()
    digits = [step * ((numbers // base**place) % base) for place in range(places)]
    inverse = _POWERS - 1 - torch.stack(digits).sum(0)
    return [torch.exp2(powers) for powers in (*digits, inverse)]


def _digits(samples: int) -> tuple[int, int, int]:
    """Return base and number of digits for a sample's number, and the powers that a digit counts.

    The powers of all digits of a sample add up to one that there is. They are as far apart as that
    allows: the smaller is the share of another sample that shows in a row.
    """
    places = 1
    while (_POWERS // places) ** places < samples:
        places += 1
    base = 2
    while base**places < samples:
        base += 1
    return base, places, (_POWERS - 1) // (places * (base - 1))


def owners_of(rows: Rows, g: Tensor, weighted: Sequence[Tensor], samples: int) -> Tensor:
    """Return the sample that each row belongs to [R]; -1 where there is no gradient.

    Args:
        rows: What the rows are.
        g: The gradient of the sum of all losses [..., of a row].
        weighted: The same for each of ``weights_to_send``.
        samples: The number of samples N.

    Raises:
        NotImplementedError: If some row belongs to several samples, or what they are is unclear.
    """
    base, places, step = _digits(samples)
    if not rows.fit(g) or len(weighted) != places + 1:
        raise NotImplementedError
    count = g.shape[: rows.dims].numel()
    width = g.shape[rows.dims :].numel()
    plain, *others, inverse = (t.reshape(count, width) for t in (g, *weighted))
    size = plain.abs().amax(1)
    off = size * (_OFF_DOUBLE if plain.dtype is torch.float64 else _OFF)
    reached, fine = size > 0, torch.isfinite(size)
    owners = torch.zeros_like(size, dtype=torch.long)
    left = torch.full_like(size, _POWERS - 1)
    for place, gradient in enumerate(others):
        ratio = gradient.abs().amax(1) / size
        digits = (ratio.log2() / step).round().nan_to_num(0, 0, 0).clamp(0, base - 1)
        fine &= _distance(gradient, step * digits, plain) <= off
        owners += digits.long() * base**place
        left -= step * digits
    fine &= _distance(inverse, left, plain) <= off
    if not bool((fine & (owners < samples)).all()):
        raise NotImplementedError
    return owners.masked_fill_(~reached, -1)


def _distance(gradient: Tensor, powers: Tensor, plain: Tensor) -> Tensor:
    """Return how far rows [R, D] are at most from others that are 2^k times as large [R]."""
    return (gradient * torch.exp2(-powers).to(gradient.dtype)[:, None] - plain).abs().amax(1)


@dataclass(frozen=True)
class Sorting:
    """The rows of a call, sample by sample, as many for each: where there are fewer, they repeat.

    Attributes:
        places: Which rows [N · T].
        spare: Those among them that are there for their number alone [N · T].
        samples: The number of samples N.
    """

    places: Tensor
    spare: Tensor
    samples: int

    def call(self, call: Call, rows: Rows) -> Call:
        """Return the call of the sorted rows."""
        data = {name: self._sorted(t, rows.dims) for name, t in rows.data.items()}
        layout = Layout(inner=len(self.places) // self.samples)
        return replace(call, arguments={**call.arguments, **data}, layout=layout)

    def gradient(self, gradient: Tensor, rows: Rows) -> Tensor:
        """Return the gradient of what that returns: nothing for spare rows."""
        found = self._sorted(gradient, rows.dims)
        spare = self.spare.reshape(-1, *[1] * (found.ndim - 1))
        return found.masked_fill_(spare, 0)

    def _sorted(self, tensor: Tensor, dims: int) -> Tensor:
        return tensor.flatten(0, dims - 1).index_select(0, self.places)


def sort_rows(owners: Tensor, samples: int) -> Sorting | None:
    """Put rows in order by their owners [R]; None if there is none that has one."""
    (owned,) = (owners >= 0).nonzero(as_tuple=True)
    if not len(owned):
        return None
    mine, order = owners[owned].sort(stable=True)
    counts = mine.bincount(minlength=samples)
    most = int(counts.max())
    # The number of each row among those of its sample.
    number = torch.arange(len(mine), device=mine.device) - (counts.cumsum(0) - counts)[mine]
    # A row that is there already fills the gaps: any other values might be ill-defined.
    places = owned[:1].repeat(samples * most)
    places[mine * most + number] = owned[order]
    spare = torch.ones_like(places, dtype=torch.bool)
    spare[mine * most + number] = False
    return Sorting(places, spare, samples)

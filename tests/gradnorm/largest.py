"""How large the tensors are that some work makes."""

from __future__ import annotations

from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """Notes how many numbers the tensors made meanwhile hold, and most of all; views make none."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.numbers = 0
        self.operator = ""

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        results = operator(*args, **(kwargs or {}))
        given = {
            t.untyped_storage().data_ptr()
            for t in pytree.tree_leaves((args, kwargs))
            if isinstance(t, Tensor)
        }
        for tensor in pytree.tree_leaves(results):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            numbers = storage.nbytes() // tensor.itemsize
            if storage.data_ptr() in given:
                continue
            self.sizes.append(numbers)
            if numbers > self.numbers:
                self.numbers, self.operator = numbers, str(operator)
        return results

"""Runs the fused kernels without a GPU, in a process where Triton interprets them.

Whether Triton interprets is decided when it is first imported, so that a process of its own is
needed: in this one another test may have imported it already.
"""

import io
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import torch


class InterpretedKernels:
    """The functions of ``steepest.gradnorm.kernels`` and those below, run in another process."""

    def __init__(self):
        self._pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=_interpret
        )

    def close(self):
        self._pool.shutdown()

    def __getattr__(self, name):
        def call(*args):
            return _unpack(self._pool.submit(_call, name, _pack(args)).result())

        return call


def squares_by_rows(a, g, window, *tile):
    """Run one kernel with a tile of the caller's choice."""
    from steepest.gradnorm.kernels.instantiate import plan_rows
    from steepest.gradnorm.kernels.shapes import from_convolution
    from steepest.gradnorm.kernels.tiles import Tile

    return plan_rows(from_convolution(a, g, *window), Tile(*tile), "tf32")(a, g)


def squares_by_pairs(a, g, window, *tile):
    from steepest.gradnorm.kernels.gram import plan_pairs
    from steepest.gradnorm.kernels.shapes import from_convolution
    from steepest.gradnorm.kernels.tiles import GramTile

    return plan_pairs(from_convolution(a, g, *window), GramTile(*tile), "tf32")(a, g)


def _interpret():
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_again(tensor, scope):
        patch(tensor, scope)
        # Triton 3.6 takes int() of arrays with one element, which numpy 2.4 refuses.
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_again


def _call(name, args):
    from steepest.gradnorm import kernels

    function = globals()[name] if name in globals() else getattr(kernels, name)
    return _pack(function(*_unpack(args)))


def _pack(value):
    # Saved tensors keep their strides, and need no memory shared between processes.
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _unpack(data):
    return torch.load(io.BytesIO(data), weights_only=False)

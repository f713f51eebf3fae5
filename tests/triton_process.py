"""Runs Triton's kernels without a GPU, in a process where Triton interprets them.

Whether it does is decided when Triton is first imported, and here it may have been already.
"""

import io
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import torch


class TritonProcess:
    """Functions that are run in another process.

    Args:
        find: Maps a name to a function, there.
    """

    def __init__(self, find):
        self._find = find
        self._pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=_interpret
        )

    def close(self):
        self._pool.shutdown()

    def __getattr__(self, name):
        def call(*args):
            return _unpack(self._pool.submit(_call, self._find, name, _pack(args)).result())

        return call


def _interpret():
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_again(tensor, *scope):
        patch(tensor, *scope)
        # Triton 3.6 takes int() of arrays with one element, which numpy 2.4 refuses.
        # Triton 3.4 patches for good, and has no scope that would undo it.
        set_attribute = scope[0].set_attr if scope else setattr
        set_attribute(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_again


def _call(find, name, args):
    return _pack(find(name)(*_unpack(args)))


def _pack(value):
    # Saved tensors keep their strides, and need no memory shared between processes.
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _unpack(data):
    return torch.load(io.BytesIO(data), weights_only=False)

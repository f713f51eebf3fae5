"""Compiled parts of a model, run uncompiled."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import torch


def uncompiled() -> AbstractContextManager[object]:
    """Let compiled parts of a model run uncompiled, so that they can be watched.

    Where nothing was ever compiled there are none, and the compiler takes a second to import.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance

"""Hooks on layers that last as long as a block of code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch.utils.hooks import RemovableHandle


@contextmanager
def removing(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    """Remove hooks in the end, also after an error."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()

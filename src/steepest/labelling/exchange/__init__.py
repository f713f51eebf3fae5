"""The loop without a server: picks go out as files, labels come back as files."""

from __future__ import annotations

from steepest.labelling.exchange.folder import LoopFolder

__all__ = ["LoopFolder"]

"""Fused kernels for training on GPUs; optional, as they need Triton."""

from __future__ import annotations

from steepest.training.fast.kernels.ops import available, runs_on

__all__ = ["available", "runs_on"]

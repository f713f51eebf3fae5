"""Fused kernels for per-sample gradient norms on GPUs; optional, as they need Triton.

They compute what ``steepest.gradnorm.rules`` computes with torch's own operators, without
writing patches, per-sample gradients or matrices of products to memory.
"""

from __future__ import annotations

from steepest.gradnorm.kernels.ops import (
    available,
    channel_sums,
    convolution_squares,
    gram_squares,
    outer_squares,
)
from steepest.gradnorm.kernels.tiles import prefer_gram

__all__ = [
    "available",
    "channel_sums",
    "convolution_squares",
    "gram_squares",
    "outer_squares",
    "prefer_gram",
]

"""Shared by all tests: one thread per process, so that parallel workers do not fight."""

from __future__ import annotations

import torch

torch.set_num_threads(1)

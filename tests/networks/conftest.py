"""Networks begin with the same weights in every run, so that a failure can be repeated."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _weights_by_a_seed():
    torch.manual_seed(0)

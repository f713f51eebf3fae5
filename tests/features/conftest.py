from __future__ import annotations

import pytest
from tiny_backbone import take_photos


@pytest.fixture
def photos(tmp_path):
    take_photos(tmp_path / "photos")
    return tmp_path / "photos"

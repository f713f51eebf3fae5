"""A pass over 100,000 files that is killed three times computes none of them twice.

``python -m pytest -m slow tests/slow/test_hundred_thousand_files.py -s`` prints how long it takes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

HERE = Path(__file__).parent.parent / "features"
sys.path.insert(0, str(HERE))

from tiny_backbone import tiny  # noqa: E402

from steepest.features import folder_features  # noqa: E402

COUNT, KILLS, WIDTH = 100_000, 3, 12

PROGRAM = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from pathlib import Path
from tiny_backbone import tiny
from steepest.features import folder_features
print(folder_features(Path(sys.argv[1]), tiny(), progress=False).computed)
"""


def write_photos(folder: Path) -> None:
    """Each file has a content of its own, in a hundred folders."""
    draw = np.random.default_rng(0)
    for number in range(COUNT):
        place = folder / f"{number % 100:02d}"
        if number < 100:
            place.mkdir(parents=True)
        pixels = draw.integers(0, 256, (6, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:06d}.bmp")


def rows_on_disk(folder: Path) -> int:
    found = list((folder / ".steepest" / "features").glob("tiny-*/rows.f32"))
    return found[0].stat().st_size // (4 * WIDTH) if found else 0


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.mark.slow
def test_a_pass_over_many_files_survives_kills(tmp_path):
    photos = tmp_path / "photos"
    write_photos(photos)
    began, kept = time.monotonic(), 0
    for kill in range(1, KILLS + 1):
        process = start(photos)
        while rows_on_disk(photos) < kill * COUNT // (KILLS + 1):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert rows_on_disk(photos) >= kept
        kept = rows_on_disk(photos)
    process = start(photos)
    out, _ = process.communicate()
    assert process.returncode == 0
    last = int(out)
    # Of a batch that was written but not yet noted, the rows are computed once more.
    assert COUNT - kept <= last <= COUNT - kept + 64
    seconds = time.monotonic() - began

    again = folder_features(photos, tiny(), progress=False)
    assert (len(again), again.computed) == (COUNT, 0)
    backbone = tiny()
    for name in again.ids[:: COUNT // 100]:
        with Image.open(photos / name) as opened:
            picture = opened.convert("RGB")
        with torch.no_grad():
            wanted = backbone.model(backbone.prepare(picture)[None])
        torch.testing.assert_close(again.of([name]), wanted, atol=1e-5, rtol=1e-5)
    print(f"\n{COUNT} files, {KILLS} kills: {seconds:.0f} s; {last} rows after the last one")  # noqa: T201

"""A folder of photos and no model: what most people type first."""

from __future__ import annotations

import csv
import re
import signal
import time

import numpy as np
import pytest
from PIL import Image
from shell import assert_one_line, run_here, start

import steepest
from steepest.errors import SkippedFilesWarning

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 200)}


@pytest.fixture
def photos(workshop):
    """Twelve photos of three colours, one of them cut off, and no photo."""
    draw = np.random.default_rng(0)
    for number in range(12):
        name = list(COLOURS)[number % 3]
        noise = draw.integers(0, 50, (24, 24, 3))
        image = np.clip(np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8)
        path = workshop / "photos" / f"{number:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(path)
    whole = (workshop / "photos" / "00.png").read_bytes()
    (workshop / "photos" / "cut.png").write_bytes(whole[: len(whole) // 2])
    return workshop / "photos"


def write_labels(folder, numbers):
    lines = [f"photos/{n:02d}.png;{list(COLOURS)[n % 3]}" for n in numbers]
    (folder / "labels.csv").write_text("\n".join(["file;colour", *lines]))


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_first_picks_then_labels_then_the_next(photos, capsys):
    folder = photos.parent
    first = run_here(capsys, "select", "photos", "-k", "3")
    assert first.code == 0, first.err
    assert "cut.png" in first.err
    assert "3 of 12 samples chosen by max-herding: picks.csv" in first.out
    assert "--labels FILE" in first.out
    write_labels(folder, range(6))
    second = run_here(capsys, "select", "photos/", "--labels", "labels.csv", "-k", "4", "--quiet")
    assert second.code == 0, second.err
    assert "6 labels of 3 classes: " in second.out
    assert "picks-2.csv" in second.out  # The first ones may be on somebody's desk.
    assert not {row["id"] for row in rows_of(folder / "picks-2.csv")} & {
        f"{n:02d}.png" for n in range(6)
    }
    with pytest.warns(SkippedFilesWarning, match="cut.png"):
        mine = steepest.select(None, photos, 4, labels=folder / "labels.csv", progress=False)
    assert list(mine.ids) == [row["id"] for row in rows_of(folder / "picks-2.csv")]


def test_the_page_needs_nothing_from_outside(photos, capsys):
    folder = photos.parent
    (photos / "11.png").rename(photos / "<script>.png")
    write_labels(folder, range(6))
    done = run_here(capsys, "select", "photos", "--labels", "labels.csv", "-k", "6", "--quiet")
    assert done.code == 0, done.err
    page = (folder / "picks.html").read_text()
    assert page.count("<img ") == 6
    assert page.count("data:image/jpeg;base64,") == 6
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<script" not in page
    assert "cut.png (" in page
    assert len(re.findall(r"(red|green|blue) \d+%", page)) >= 6
    assert "Spread over the classes" in page


def test_sheets_to_fill_in_are_labels_once_they_are(photos, capsys):
    folder = photos.parent
    more = ("--format", "csv", "--out", "todo.csv", "--sheet", "look.html", "--quiet")
    assert run_here(capsys, "select", "photos", "-k", "6", *more).code == 0
    assert (folder / "look.html").exists()
    rows = rows_of(folder / "todo.csv")
    rows[0]["skip"] = "blurred"
    for row in rows[1:5]:
        row["label"] = list(COLOURS)[int(row["id"][:2]) % 3]
    with (folder / "todo.csv").open("w", newline="") as file:
        sheet = csv.DictWriter(file, rows[0])
        sheet.writeheader()
        sheet.writerows(rows)
    refused = run_here(capsys, "select", "photos", "-k", "6", *more)
    assert_one_line(refused, "todo.csv")  # The answers in it would be lost.
    done = run_here(capsys, "select", "photos", "-k", "7", "--labels", "todo.csv", "--quiet")
    assert done.code == 0, done.err
    taken = {row["id"] for row in rows[:5]}
    assert not taken & {row["id"] for row in rows_of(folder / "picks.csv")}


def test_stopping_keeps_features(photos, workshop):
    (workshop / "slow_net.py").write_text(
        "import time, torch\n"
        "from torch import nn\n"
        "def prepare(image):\n"
        "    time.sleep(0.15)\n"
        "    return torch.zeros(3, 4, 4)\n"
        "def net():\n"
        "    return nn.Flatten(), prepare\n"
    )
    argv = ["select", "photos", "-k", "2", "--backbone", "slow_net:net", "--batch-size", "1"]
    process = start(*argv, cwd=workshop)
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if list(photos.glob(".steepest/features/slow*/rows.f32")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "features that were computed are kept" in err
    assert not (workshop / "picks.csv").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-k", "3", "photos", "--pool", "photos"], "given twice"),
        (["-k", "3"], "steepest select photos/ -k 100"),
        (["-k", "3", "photos", "--labels", "missing.csv"], "no such file"),
        (["-k", "3", "photos", "--labels", "photos"], "is a folder"),
        (["-k", "30", "photos", "--quiet"], "only 12 samples"),
        (["-k", "3", "photos", "--backbone", "efficientnet-lite"], "efficientnet-lite0"),
        (["-k", "3", "photos", "--size", "8"], "--size needs a model"),
        (["-k", "3", "photos", "--run", "loop"], "--run needs a model"),
        (["-k", "3", "photos", "--sheet", "page.pdf"], "saved as .html"),
        (["-k", "3", "photos", "--strategy", "margin"], "there are no labels yet"),
        (["-k", "3", "nowhere"], "no such folder"),
        (["-k", "3", "user_models:make"], "needs a --model"),
        (["-k", "3", "photos", "--model", "user_models:make", "--labels", "x"], "--labelled"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(photos, capsys, more, said):
    assert_one_line(run_here(capsys, "select", *more), re.escape(said))

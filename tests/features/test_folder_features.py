from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_backbone import take_photos, tiny

from steepest.core.lock import InUseError
from steepest.errors import DataError, InputError, SkippedFilesWarning
from steepest.features import folder_features
from steepest.features.store import FeatureStore


def features(photos, backbone, **more):
    return folder_features(photos, backbone, batch_size=4, progress=False, **more)


def one_by_one(photos, backbone):
    """Each picture alone, opened the obvious way."""
    rows = []
    for path in sorted(p for p in photos.rglob("*.png") if ".steepest" not in p.parts):
        with Image.open(path) as picture:
            small = np.array(picture.convert("RGB").resize((4, 4)), dtype=np.float32)
        rows.append(backbone.model(torch.from_numpy(small).permute(2, 0, 1)[None] / 255)[0])
    return torch.stack(rows).detach()


def test_rows_are_those_of_each_picture_alone(photos):
    backbone = tiny()
    found = features(photos, backbone)
    assert found.ids == tuple(f"{i:02d}.png" for i in range(9))
    assert (found.backbone, found.identity, found.computed) == ("tiny", backbone.identity, 9)
    torch.testing.assert_close(found.rows, one_by_one(photos, backbone))
    torch.testing.assert_close(found.of(["07.png", "01.png"]), found.rows[[7, 1]])
    with pytest.raises(InputError, match="no features of sample 'x'"):
        found.of(["x"])


def test_a_second_time_nothing_is_decoded_or_computed(photos):
    first = features(photos, tiny())
    backbone = tiny()
    again = features(photos, backbone)
    assert (again.computed, backbone.prepare.seen) == (0, 0)
    assert again.ids == first.ids
    assert torch.equal(again.rows, first.rows)


def test_new_and_changed_files_alone_are_computed(photos):
    first = features(photos, tiny())
    take_photos(photos / "more", 1, seed=1)
    shutil.copy(photos / "more" / "00.png", photos / "03.png")
    Image.new("RGB", (5, 5), (9, 99, 199)).save(photos / "04.png")
    backbone = tiny()
    again = features(photos, backbone)
    # Two contents are new: one of them is there twice.
    assert again.computed == 2
    torch.testing.assert_close(again.rows, one_by_one(photos, backbone))
    assert torch.equal(again.of(["03.png"]), again.of(["more/00.png"]))
    stayed = [name for name in first.ids if name not in ("03.png", "04.png")]
    assert torch.equal(again.of(stayed), first.of(stayed))


def test_touched_and_moved_files_keep_their_features(photos):
    first = features(photos, tiny())
    os.utime(photos / "00.png", ns=(1, 1))
    (photos / "01.png").rename(photos / "moved.png")
    (photos / "02.png").unlink()
    backbone = tiny()
    again = features(photos, backbone)
    assert (again.computed, backbone.prepare.seen) == (0, 0)
    assert again.ids == ("00.png", *first.ids[3:], "moved.png")
    assert torch.equal(again.of(["moved.png", "00.png"]), first.of(["01.png", "00.png"]))


@pytest.mark.parametrize("other", [{"seed": 1}, {"words": "5x5"}])
def test_another_net_or_preprocessing_has_features_of_its_own(photos, other):
    first = features(photos, tiny())
    backbone = tiny(**other)
    again = features(photos, backbone)
    assert again.computed == 9
    assert again.identity != first.identity
    torch.testing.assert_close(again.rows, one_by_one(photos, backbone))
    assert torch.equal(features(photos, tiny()).rows, first.rows)


def test_what_is_no_image_is_named_and_left_out_without_another_look(photos):
    (photos / "page.jpg").write_text("<html>not found</html>")
    whole = (photos / "00.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    (photos / "notes.txt").write_text("no picture")
    with pytest.warns(SkippedFilesWarning, match=r"2 of 11 images left out: cut.png .*page.jpg"):
        first = features(photos, tiny())
    assert [name for name, _ in first.skipped] == ["cut.png", "page.jpg"]
    assert dict(first.skipped)["page.jpg"] == "not an image"
    backbone = tiny()
    with pytest.warns(SkippedFilesWarning, match="2 of 11"):
        again = features(photos, backbone)
    assert (again.skipped, again.computed) == (first.skipped, 0)
    shutil.copy(photos / "00.png", photos / "page.jpg")
    with pytest.warns(SkippedFilesWarning, match="1 of 11"):
        assert len(features(photos, tiny())) == 10


def test_an_image_on_its_side_is_turned(photos):
    """Orientation 6: what the camera wrote is turned by a quarter."""
    with Image.open(photos / "00.png") as picture:
        upright = picture.copy()
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(photos / "turned.png", exif=exif)
    found = features(photos, tiny())
    torch.testing.assert_close(found.of(["turned.png"]), found.of(["00.png"]))


@pytest.mark.parametrize("size", [1, 2, 32])
def test_the_batch_size_changes_nothing(photos, size, tmp_path):
    one = features(photos, tiny(), store=tmp_path / "a")
    other = folder_features(
        photos, tiny(), store=tmp_path / "b", batch_size=size, progress=False, device="cpu"
    )
    assert one.ids == other.ids
    torch.testing.assert_close(one.rows, other.rows)


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tiny_backbone import tiny
from steepest.features import folder_features
folder_features(Path(sys.argv[1]), tiny(kill_at=7), batch_size=1, progress=False)
"""


def test_after_a_kill_the_rest_alone_is_computed(photos):
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", KILLED, str(photos), here], check=False)
    assert done.returncode == -signal.SIGKILL
    backbone = tiny()
    kept = len(FeatureStore(photos / ".steepest" / "features", backbone))
    assert 3 <= kept < 9
    found = features(photos, backbone)
    assert found.computed == 9 - kept
    torch.testing.assert_close(found.rows, one_by_one(photos, backbone))


def test_rows_that_nothing_notes_are_cut_off(photos):
    """As a kill leaves them between the rows and the note of whose they are."""
    features(photos, tiny())
    (rows,) = (photos / ".steepest" / "features").glob("*/rows.f32")
    with rows.open("ab") as file:
        file.write(b"\7" * 77)
    take_photos(photos / "more", 2, seed=1)
    backbone = tiny()
    found = features(photos, backbone)
    assert found.computed == 2
    torch.testing.assert_close(found.rows, one_by_one(photos, backbone))


def test_ctrl_c_keeps_what_was_computed(photos):
    backbone = tiny()
    plain, calls = backbone.model.forward, []

    def forward(x):
        calls.append(len(x))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(x)

    backbone.model.forward = forward
    with pytest.raises(KeyboardInterrupt):
        features(photos, backbone)
    assert features(photos, tiny()).computed == 9 - calls[0]


def test_damaged_features_are_refused_with_the_folder_to_delete(photos):
    features(photos, tiny())
    (rows,) = (photos / ".steepest" / "features").glob("*/rows.f32")
    rows.write_bytes(rows.read_bytes()[:-4])
    with pytest.raises(InputError, match="delete that folder"):
        features(photos, tiny())


def test_nothing_is_written_through_a_link(photos, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (photos / ".steepest").symlink_to(victim)
    with pytest.raises(InputError, match=r"\.steepest is a link"):
        features(photos, tiny())
    assert list(victim.iterdir()) == []


def test_two_at_once_do_not_write_over_each_other(photos):
    with (
        FeatureStore(photos / ".steepest" / "features", tiny(seed=1)),
        pytest.raises(InUseError, match="in use"),
    ):
        features(photos, tiny())


def test_bad_folders_say_what_is_there(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        features(tmp_path / "nowhere", tiny())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in it"):
        features(tmp_path / "empty", tiny())

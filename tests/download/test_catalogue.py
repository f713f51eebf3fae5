"""The catalogue agrees with itself and with the readers."""

from __future__ import annotations

import re

import pytest

from steepest.core.http_requests import check_url
from steepest.data import names
from steepest.data.catalogue import Source, catalogue, find_full_layout, find_holding, find_layout
from steepest.errors import UnknownNameError

OWN_FILES = {"folder", "masks", "npz", "texts"}
"""Readers of whatever files a user has."""

each = pytest.mark.parametrize("holding", catalogue(), ids=lambda holding: holding.name)


def test_every_data_set_of_the_package_is_in_it():
    listed = [holding.name for holding in catalogue()]
    assert listed == sorted(set(listed))
    assert set(names()) - OWN_FILES == set(listed)


@each
def test_an_entry_says_what_people_need(holding):
    assert holding.title
    assert holding.terms
    assert min(holding.train_count, holding.test_count, holding.classes) > 1
    assert holding.task in {"classification", "segmentation"}
    assert bool(holding.files) == bool(holding.layouts) == bool(holding.site)
    assert bool(holding.files) == (holding.source in {Source.DOWNLOAD, Source.BY_HAND})


@each
def test_files_have_addresses_unless_an_account_is_needed(holding):
    for file in holding.files:
        assert bool(file.url) == (holding.source is Source.DOWNLOAD)
        if file.url:
            check_url(file.url)
        assert file.md5 is None or re.fullmatch("[0-9a-f]{32}", file.md5)
        assert "/" not in file.name


@each
def test_what_the_files_become_is_a_layout(holding):
    kinds = [set(layout.paths) for layout in holding.layouts if not layout.options]
    made = {file.unpacking.target if file.unpacking else file.name for file in holding.files}
    assert not kinds or any(kind <= made for kind in kinds)


@each
def test_paths_stay_in_the_data_folder(holding):
    paths = [path for layout in holding.layouts for path in layout.paths]
    paths += [file.unpacking.target for file in holding.files if file.unpacking]
    assert not any(path.startswith("/") or ".." in path for path in paths)


def test_a_layout_is_found_when_all_of_it_is_there(tmp_path):
    svhn = find_holding("svhn")
    (tmp_path / "train_32x32.mat").touch()
    assert find_layout(svhn, tmp_path) is None
    (tmp_path / "test_32x32.mat").touch()
    assert find_layout(svhn, tmp_path) == svhn.layouts[0]


def test_a_compact_copy_is_not_the_full_layout(tmp_path):
    camvid = find_holding("camvid")
    (tmp_path / "camvid_240x180").mkdir()
    assert find_layout(camvid, tmp_path) == camvid.layouts[-1]
    assert find_full_layout(camvid, tmp_path) is None
    (tmp_path / "CamVid").mkdir()
    assert find_full_layout(camvid, tmp_path) == camvid.layouts[0]


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'cifar10'"):
        find_holding("cifar-10")

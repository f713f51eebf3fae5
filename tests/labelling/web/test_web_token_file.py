"""The token stays from start to start, and stays with its owner."""

from __future__ import annotations

import os
import stat

import pytest

from steepest.errors import InputError, SteepestWarning
from steepest.labelling.web import token_file
from steepest.labelling.web.token_file import TOKEN_NAME, keep_token


def test_a_token_stays_until_another_is_wanted(tmp_path):
    first = keep_token(tmp_path)
    assert len(first) == 43
    assert keep_token(tmp_path) == first
    second = keep_token(tmp_path, new=True)
    assert second != first
    assert keep_token(tmp_path) == second
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_NAME]


def test_its_file_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        keep_token(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / TOKEN_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o610])
def test_a_file_that_others_can_use_is_refused_with_the_remedy(tmp_path, mode):
    token = keep_token(tmp_path)
    (tmp_path / TOKEN_NAME).chmod(mode)
    with pytest.raises(InputError, match="open to other users") as refusal:
        keep_token(tmp_path)
    said = str(refusal.value)
    assert f"chmod 600 {tmp_path / TOKEN_NAME}" in said
    assert "--new-token" in said
    assert f"{mode:04o}" in said
    assert token not in said
    assert "\n" not in said
    assert keep_token(tmp_path, new=True) != token
    assert stat.S_IMODE((tmp_path / TOKEN_NAME).stat().st_mode) == 0o600


def test_a_file_of_somebody_else_is_refused(tmp_path, monkeypatch):
    keep_token(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="belongs to another user: start with --new-token"):
        keep_token(tmp_path)


@pytest.mark.parametrize("text", ["", "short\n", "é" * 43 + "\n", "a" * 44 + "\n", "a" * 43])
def test_a_file_without_a_token_is_refused(tmp_path, text):
    path = tmp_path / TOKEN_NAME
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(InputError, match="holds no token: start with --new-token"):
        keep_token(tmp_path)


def test_links_pipes_and_folders_are_not_followed(tmp_path):
    (tmp_path / "other").mkdir()
    token = keep_token(tmp_path / "other")
    path = tmp_path / TOKEN_NAME
    path.symlink_to(tmp_path / "other" / TOKEN_NAME)
    with pytest.raises(InputError, match="cannot be read"):
        keep_token(tmp_path)
    assert keep_token(tmp_path, new=True) != token
    assert not path.is_symlink()
    assert keep_token(tmp_path / "other") == token
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(InputError, match="no plain file"):
        keep_token(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="no plain file"):
        keep_token(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        keep_token(tmp_path, new=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", TOKEN_NAME]


def test_where_nothing_can_be_kept_private_nothing_is_kept(tmp_path, monkeypatch):
    old = keep_token(tmp_path)
    monkeypatch.setattr(token_file, "_is_private", lambda _: False)
    with pytest.warns(SteepestWarning, match="keeps no permissions"):
        assert keep_token(tmp_path, new=True) != old
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        keep_token(tmp_path / "nowhere")

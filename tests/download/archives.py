"""Archives as a publisher, or somebody worse, would make them."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

MEMBERS = {"top/a.txt": b"a" * 1000, "top/sub/b.txt": b"b", "readme": b"read me"}


def make_zip(path: Path, members: dict[str, bytes] = MEMBERS, **more) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        for name, kind in more.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind | 0o777) << 16
            archive.writestr(info, "a.txt")
    return path


def make_tar(path: Path, members: dict[str, bytes] = MEMBERS, mode: str = "w:gz", **more) -> Path:
    with tarfile.open(path, mode) as archive:
        fill_tar(archive, members)
        for name, kind in more.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.txt"
            archive.addfile(info)
    return path


def fill_tar(archive: tarfile.TarFile, members: dict[str, bytes]) -> None:
    for name, data in members.items():
        info = tarfile.TarInfo(name)
        info.size = len(data)
        if name.endswith("/"):
            info.type = tarfile.DIRTYPE
        archive.addfile(info, io.BytesIO(data))


def tar_bytes(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        fill_tar(archive, members)
    return file.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


SYMLINK = stat.S_IFLNK

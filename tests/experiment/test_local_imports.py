"""What a module of the user's own is made of, read from its source."""

from __future__ import annotations

import pytest

from steepest.experiment.environment import find_local_files


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


FILES = {
    "mine/__init__.py": "",
    "mine/core.py": "import os, beside\nfrom . import near\nfrom .sub.deep import value",
    "mine/near.py": "def late():\n    from mine import core, later",
    "mine/later.py": "from ..too.far import up",
    "mine/unused.py": "import elsewhere",
    "mine/sub/__init__.py": "",
    "mine/sub/deep.py": "from .. import broken\nvalue = 1",
    "mine/broken.py": "def (",
    "beside.py": "import beside",
    "elsewhere.py": "",
}


def test_all_that_is_imported_from_beside_it_is_found_once(tmp_path):
    write(tmp_path, FILES)
    found = find_local_files("mine.core", tmp_path / "mine" / "core.py")
    assert sorted(found) == [
        "beside",
        "mine",
        "mine.broken",
        "mine.core",
        "mine.later",
        "mine.near",
        "mine.sub",
        "mine.sub.deep",
    ]
    assert found["mine"] == tmp_path / "mine" / "__init__.py"
    assert found["mine.sub.deep"] == tmp_path / "mine" / "sub" / "deep.py"


def test_of_installed_packages_only_its_own_is_looked_at(tmp_path):
    root = tmp_path / "site-packages"
    write(root, FILES)
    found = find_local_files("mine.core", root / "mine" / "core.py")
    assert "beside" not in found
    assert "mine.near" in found


@pytest.mark.parametrize("name", ["mine/__init__.py", "alone.py"])
def test_a_package_and_a_single_file_have_the_same_root(tmp_path, name):
    write(tmp_path, FILES | {"mine/__init__.py": "import beside", "alone.py": "import beside"})
    module = name.partition("/")[0].removesuffix(".py")
    assert sorted(find_local_files(module, tmp_path / name)) == sorted([module, "beside"])

"""Run the Python blocks of a page, in order, in one namespace and one folder.

A block that begins with ``# src/steepest/PACKAGE/FILE.py`` is such a file: it is written beside the
package and imported from there, as if it had been put into it. ``python doc_runner.py PAGE`` runs a
page in a process of its own, so that nobody else sees what it registers.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import re
import sys
import types
import warnings
from pathlib import Path

from doc_pages import NOT_RUN, Block, name_of, read_blocks

from steepest.errors import RegimeWarning

_FILE = re.compile(r"# src/steepest/(\w+)/(\w+)\.py\n")


def run_page(page: Path) -> int:
    """Run a page and return how many blocks were run.

    A ``text`` block right behind a ``python`` block is what that block prints.
    """
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        ran = 0
        blocks = read_blocks(page)
        for block, after in itertools.zip_longest(blocks, blocks[1:]):
            if block.language != "python" or block.text.startswith(NOT_RUN):
                continue
            ran += 1
            printed = _run(block, page, module)
            if after is not None and after.language == "text" and after.follows:
                _compare(printed, after, page)
        return ran
    finally:
        del sys.modules[module.__name__]


def _run(block: Block, page: Path, module: types.ModuleType) -> str:
    file = _FILE.match(block.text)
    if file:
        return _import(block, *file.groups())
    # Empty lines in front make a traceback show the line of the page.
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, name_of(page), "exec", dont_inherit=True)
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RegimeWarning)
        exec(code, module.__dict__)
    return printed.getvalue()


def _import(block: Block, package: str, name: str) -> str:
    folder = Path("added", package).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(block.text, encoding="utf-8")
    importlib.import_module(f"steepest.{package}").__path__.append(str(folder))
    importlib.import_module(f"steepest.{package}.{name}")
    return ""


def _compare(printed: str, wanted: Block, page: Path) -> None:
    got = [line.rstrip() for line in printed.rstrip().splitlines()]
    if got != [line.rstrip() for line in wanted.text.rstrip().splitlines()]:
        raise AssertionError(
            f"{name_of(page)}, line {wanted.line}: the page shows\n{wanted.text}\n"
            f"but the block above it prints\n{printed}"
        )


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve())

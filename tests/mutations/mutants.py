"""Faults put into the code one by one, each of which some test has to notice.

``make mutants`` runs all of them, ``python tests/mutations/mutants.py top_k sraal`` those that have
one of the words in their file or text. Each is put into a copy of the sources, which stay as they
are.

A mutation is found by the name of its function and by the code that it changes, and its tests by
the names of their files, so that moving a file breaks nothing here.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.toml")
SOURCES = Path("src/steepest")

_LONGEST_SECONDS = 300
_PASSED, _FAILED = 0, 1
_BLANK = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT,
    tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One fault.

    Attributes:
        at: The function or class that has it, as in ``fit`` or ``Queue.answer``.
        old: The code that stands in one function of this name exactly once, wrapped in any way.
        new: What is put in its place.
        tests: Names of files of tests, or of single tests in them, one of which has to fail.
    """

    at: str
    old: str
    new: str
    tests: tuple[str, ...]

    def find(self, root: Path = ROOT) -> Place:
        """Return where the code is, below the root.

        Raises:
            ValueError: If it is not exactly at one place.
        """
        wanted = [text for text, _, _ in _read_tokens(self.old)]
        places = [
            Place(path.relative_to(root), start, stop)
            for path, node in _functions(root, self.at)
            for start, stop in _find_tokens(path, node, wanted)
        ]
        if len(places) != 1:
            found = ", ".join(str(place.path) for place in places)
            raise ValueError(f"{self.at} has {self.old!r} {len(places)} times, not once ({found})")
        return places[0]

    def __str__(self) -> str:
        return f"{self.at}: {_in_one_line(self.old)} -> {_in_one_line(self.new) or 'nothing'}"


@dataclass(frozen=True)
class Place:
    """Where a mutation's code is: a file below the root, and offsets in its text."""

    path: Path
    start: int
    stop: int

    def put(self, text: str, new: str) -> str:
        """Return the source with the code replaced."""
        return text[: self.start] + new + text[self.stop :]


def find_test(test: str, root: Path = ROOT) -> str:
    """Return a test's file, with the rest of its name, below the root."""
    name, *rest = test.split("::")
    found = sorted((root / "tests").rglob(name))
    if len(found) != 1:
        raise ValueError(f"{len(found)} files of tests are called {name}, not one")
    return "::".join([found[0].relative_to(root).as_posix(), *rest])


def read_mutations(path: Path = LIST) -> list[Mutation]:
    """Return all mutations of a list."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Mutation(**{**one, "tests": tuple(one["tests"])}) for one in table["mutation"]]


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[str, str]:
    """Return how tests end in a copy of the tree (passed, failed, broken), and what they print."""
    # Without bytecode: a file that is changed twice within a second would be taken for its last.
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *(find_test(test, copy) for test in tests)],
            cwd=copy, env=env, timeout=_LONGEST_SECONDS, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "failed", f"took longer than {_LONGEST_SECONDS} s"
    known = {_PASSED: "passed", _FAILED: "failed"}
    return known.get(done.returncode, "broken"), done.stdout


def try_mutation(copy: Path, mutation: Mutation) -> tuple[str, str]:
    """Return how the tests end with the fault in the copy, and leave the copy as it was."""
    place = mutation.find(copy)
    path = copy / place.path
    original = path.read_text(encoding="utf-8")
    path.write_text(place.put(original, mutation.new), encoding="utf-8")
    try:
        return run_tests(copy, mutation.tests)
    finally:
        path.write_text(original, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the mutations, and return 1 if one survives or its tests do not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutations that contain one of these")
    words = parser.parse_args(arguments).words
    chosen = [
        mutation
        for mutation in read_mutations()
        if not words or any(word in f"{mutation.find().path} {mutation}" for word in words)
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = _copy_tree(Path(folder))
        everything = sorted({test for mutation in chosen for test in mutation.tests})
        ended, printed = run_tests(copy, everything)
        if ended != "passed":
            _say(f"{printed}\nthe tests have to pass before anything is changed")
            return 1
        alive = 0
        for number, mutation in enumerate(chosen, 1):
            ended, printed = try_mutation(copy, mutation)
            alive += ended != "failed"
            word = {"failed": "killed", "passed": "SURVIVED"}.get(ended, "BROKEN")
            _say(f"{number}/{len(chosen)} {word} {mutation}")
            if ended == "broken":
                _say(printed)
    _say(f"{len(chosen) - alive} of {len(chosen)} killed")
    return 1 if alive else 0


def _functions(root: Path, at: str) -> Iterator[tuple[Path, ast.AST]]:
    """Yield every function and class whose dotted name ends in this one, with its file."""
    name = at.rpartition(".")[2]
    define = re.compile(rf"^ *(?:async def|def|class) {name}\b", re.MULTILINE)
    for path, text in _read_sources(root):
        if define.search(text):
            for name, node in _named(ast.parse(text), ""):
                if f".{name}".endswith(f".{at}"):
                    yield path, node


def _named(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _named(child, f"{name}.")
        else:
            yield from _named(child, prefix)


def _find_tokens(path: Path, node: ast.AST, wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where a function has a row of tokens, as offsets in its file's text."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
    offset = sum(map(len, lines[: first - 1]))
    tokens = _read_tokens("".join(lines[first - 1 : last]))
    for at in range(len(tokens) - len(wanted) + 1):
        if all(tokens[at + k][0] == text for k, text in enumerate(wanted)):
            yield offset + tokens[at][1], offset + tokens[at + len(wanted) - 1][2]


def _read_tokens(code: str) -> list[tuple[str, int, int]]:
    """Return the tokens that mean something, each with its start and stop in the code."""
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens: list[tuple[str, int, int]] = []
    try:
        for kind, text, (row, column), (to_row, to_column), _ in tokenize.generate_tokens(
            io.StringIO(code).readline
        ):
            if kind not in _BLANK:
                # Wrapping adds a comma before the bracket.
                if text in ")]}" and tokens and tokens[-1][0] == ",":
                    tokens.pop()
                tokens.append((text, starts[row - 1] + column, starts[to_row - 1] + to_column))
    except (tokenize.TokenError, IndentationError):
        pass  # A function cut out of a class, or a piece of a call: the tokens so far are all.
    return tokens


@cache
def _read_sources(root: Path) -> tuple[tuple[Path, str], ...]:
    """Return all files of the sources and what is in them."""
    files = sorted((root / SOURCES).rglob("*.py"))
    return tuple((path, path.read_text(encoding="utf-8")) for path in files)


def _copy_tree(folder: Path) -> Path:
    leave = shutil.ignore_patterns("__pycache__")
    for part in ("src", "tests", "docs", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=leave)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    return folder


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Faults put into the code one by one, each of which some test has to notice.

``make mutants`` runs all of them, ``python tests/mutations/mutants.py top_k sraal`` those that have
one of the words in their file or text. Each is put into a copy of the sources, which stay as they
are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.toml")
SOURCES = Path("src/steepest")

_LONGEST_SECONDS = 300
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Mutation:
    """One fault.

    Attributes:
        file: Below ``src/steepest``.
        old: What stands in the file, exactly once.
        new: What is put in its place.
        tests: Files or single tests below ``tests``, one of which has to fail.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file, below the root."""
        return SOURCES / self.file

    def put_into(self, text: str) -> str:
        """Return the source with the fault in it."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {count} times, not once")
        return text.replace(self.old, self.new)

    def __str__(self) -> str:
        return f"{self.file}: {_in_one_line(self.old)} -> {_in_one_line(self.new) or 'nothing'}"


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
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=copy, env=env, timeout=_LONGEST_SECONDS, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "failed", f"took longer than {_LONGEST_SECONDS} s"
    known = {_PASSED: "passed", _FAILED: "failed"}
    return known.get(done.returncode, "broken"), done.stdout


def try_mutation(copy: Path, mutation: Mutation) -> tuple[str, str]:
    """Return how the tests end with the fault in the copy, and leave the copy as it was."""
    path, original = copy / mutation.path, ROOT / mutation.path
    path.write_text(mutation.put_into(original.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        return run_tests(copy, mutation.tests)
    finally:
        shutil.copy2(original, path)


def main(arguments: Sequence[str]) -> int:
    """Run the mutations, and return 1 if one survives or its tests do not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutations that contain one of these")
    words = parser.parse_args(arguments).words
    chosen = [m for m in read_mutations() if not words or any(w in str(m) for w in words)]
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

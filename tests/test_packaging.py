"""Files beside the package say what ``pyproject.toml`` says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_has_the_version_and_licence_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation


def test_the_workflow_tests_every_python_that_the_package_names_and_its_oldest_torch():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    tested = set(re.findall(r"3\.\d+", re.search(r"python: \[(.*)\]", workflow)[1]))
    named = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert tested == named
    oldest = next(re.search(r"torch>=([\d.]+)", d) for d in PROJECT["dependencies"] if "torch" in d)
    assert f"torch=={oldest[1]}.*" in workflow

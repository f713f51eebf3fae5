"""The table beside the paper says what the artefacts hold."""

from __future__ import annotations

import json

from paper_tables import RESULTS, paper


def cells(text):
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_every_number_is_that_of_its_artefact():
    found = {row[0]: row[1:] for row in cells(paper())}
    rows = json.loads((RESULTS / "figure-1" / "data.json").read_text())["rows"]
    (one,) = (r for r in rows if (r["data"], r["method"], r["share"]) == ("cifar10", "margin", 40))
    told = f"{one['ours']:.2f} ± {one['sd']:.2f}"
    assert found["accuracy, margin, 20,000 labels"] == [told, str(one["n"]), "–"]
    rows = json.loads((RESULTS / "table-1" / "data.json").read_text())["rows"]
    own = [r for r in rows if (r["setting"], r["norm"]) == ("own run", "tensor-sum")]
    (line,) = (row for name, row in found.items() if "Table 1" in name)
    assert line[0] == ", ".join(f"{r['ours']:.0f}" for r in own)
    assert line[2] == ", ".join(f"{r['paper']:.0f}" for r in own)


def test_a_changed_artefact_changes_the_table(tmp_path):
    for name in ("figure-1", "table-1", "table-2", "table-3", "table-4"):
        data = json.loads((RESULTS / name / "data.json").read_text())
        for row in data["rows"]:
            if row["ours"] is not None:
                row["ours"] += 1
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.json").write_text(json.dumps(data))
    old, new = cells(paper()), cells(paper(tmp_path))
    assert [row[0] for row in old] == [row[0] for row in new]
    assert all(a[1] != b[1] and a[2:] == b[2:] for a, b in zip(old, new, strict=True))

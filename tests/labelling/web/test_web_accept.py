from __future__ import annotations

import re

import pytest
import safetensors.torch
import torch
from web_pages import is_one_line, open_pages

from steepest.labelling.project.predictions import FILE_NAME


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02d}.png").touch()
    return folder


def predict(project, probabilities, version=3):
    """Say that a model has looked at all images; held-out ones are not offered."""
    with project.store.writing() as connection:
        connection.execute("UPDATE images SET held_out = number > 10")
        rows = connection.execute("SELECT number FROM images ORDER BY id").fetchall()
    tensors = {
        "images": torch.tensor([row["number"] for row in rows]),
        "probabilities": torch.tensor(probabilities).expand(len(rows), 3).contiguous(),
    }
    path = project.folder / FILE_NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(safetensors.torch.save(tensors, metadata={"version": str(version)}))


def ticked(page):
    return re.findall(r'type="checkbox" name="sample" value="([^"]*)" checked', page)


def test_predictions_are_looked_at_accepted_and_taken_back(photos):
    with open_pages(photos) as (project, client):
        assert "come with the first model" in client.get("/accept").text
        predict(project, [0.996, 0.002, 0.002])
        page = client.get("/accept").text
        assert "sure of 10 images" in page
        assert "of no held-out image yet" in page
        assert len(ticked(page)) == 10
        form = {"version": 3, "above": 99, "sample": ticked(page)[:7]}
        done = client.post("/accept", data=form)
        assert done.headers["HX-Redirect"] == "/accept?above=99"
        assert dict(project.labels()) == dict.fromkeys(ticked(page)[:7], ("cat",))
        page = client.get("/accept").text
        assert len(ticked(page)) == 3
        assert "ann accepted 7" in page
        exported = client.get("/export/predictions.csv").text.splitlines()
        assert exported[0] == "id,label,probability,source"
        assert sum(line.endswith(",accepted") for line in exported) == 7
        assert sum(line.endswith(",0.99600,model") for line in exported) == 5
        (number,) = re.findall(r'"number": (\d+)', page)
        assert client.post("/accept/undo", data={"number": number}).status_code == 204
        assert project.labels() == []
        assert "0 of them hold" in client.get("/accept").text


def test_what_is_not_sure_enough_is_not_offered(photos):
    with open_pages(photos) as (project, client):
        predict(project, [0.95, 0.03, 0.02])
        assert "this sure" in client.get("/accept").text
        assert len(ticked(client.get("/accept?above=94").text)) == 10
        assert client.get("/accept?above=50").status_code == 422


def test_refusals_are_one_line(photos):
    with open_pages(photos) as (project, client):
        predict(project, [0.996, 0.002, 0.002])
        for form in (
            {"version": 3, "above": 99},
            {"version": 2, "above": 99, "sample": ["00.png"]},
            {"version": 3, "above": 50, "sample": ["00.png"]},
        ):
            refused = client.post("/accept", data=form)
            assert refused.status_code in (400, 422)
            assert is_one_line(refused.text)
        assert is_one_line(client.post("/accept/undo", data={"number": 5}).text)
        assert is_one_line(client.get("/export/model").text)
        assert is_one_line(client.get("/export/predictions.zip").text)
        assert project.labels() == []


def test_several_classes_are_accepted_together(photos):
    with open_pages(photos, multi_label=True) as (project, client):
        predict(project, [0.996, 0.002, 0.994])
        page = client.get("/accept").text
        client.post("/accept", data={"version": 3, "above": 99, "sample": ticked(page)[:1]})
        assert project.labels()[0][1] == ("cat", "owl")

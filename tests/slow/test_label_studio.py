"""The loop with a real Label Studio server, which is started here and thrown away.

Run it by ``STEEPEST_LABEL_STUDIO=/path/to/bin/label-studio pytest -m slow
tests/slow/test_label_studio.py``; docs/label-studio.md says how to install one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from steepest.core.http_requests import Patience
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.label_studio.client import Account, Client
from steepest.labelling.label_studio.masks import encode_brush
from steepest.modules.weights import save_weights
from steepest.pool import State

VARIABLE = "STEEPEST_LABEL_STUDIO"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no label-studio"),
]

TOKEN = "fedcba9876543210fedcba9876543210fedcba98"
PASSWORD = "a long enough passphrase"
NAMES = ["red", "green", "dark & blue"]
START_SECONDS = 600
MODELS = """
from torch import nn

def whole():
    return nn.Sequential(nn.Flatten(), nn.Linear(8 * 6 * 3, 3))

def pixels():
    return nn.Conv2d(3, 3, 1)
"""


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A fresh server with one user, on a free port of this machine."""
    folder = tmp_path_factory.mktemp("label-studio")
    url = f"http://127.0.0.1:{free_port()}"
    settings = {
        **os.environ,
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
        "LABEL_STUDIO_USERNAME": "ana@example.com",
        "LABEL_STUDIO_PASSWORD": PASSWORD,
        "LABEL_STUDIO_USER_TOKEN": TOKEN,
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(tmp_path_factory.getbasetemp()),
        "COLLECT_ANALYTICS": "false",
    }
    command = [os.environ[VARIABLE], "start", "--no-browser", "--internal-host", "127.0.0.1"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", url.rsplit(":", 1)[1]],
            env=settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_for(url, process, folder / "log")
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def wait_for(url, process, log):
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(1)
    pytest.fail(f"the server did not start within {START_SECONDS} s")


@pytest.fixture
def api(server):
    return Client(Account(server, TOKEN), Patience(retries=2, timeout_seconds=60))


@pytest.fixture
def place(tmp_path):
    """A user's folder: twelve photos, a model and its weights."""
    rng = np.random.default_rng(0)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(12):
        pixels = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"ä {number}.png")
    (tmp_path / "user_models.py").write_text(MODELS)
    generator = torch.Generator().manual_seed(0)
    for name, net in {
        "whole": nn.Sequential(nn.Flatten(), nn.Linear(144, 3)),
        "pixels": nn.Conv2d(3, 3, 1),
    }.items():
        for parameter in net.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        save_weights(net, tmp_path / f"{name}.safetensors")
    return tmp_path


def steepest(place, server, *argv, code=0, token=TOKEN):
    """Run a command in a process of its own; the token never shows."""
    settings = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "LABEL_STUDIO_URL": server,
        "LABEL_STUDIO_TOKEN": token,
    }
    done = subprocess.run(
        [sys.executable, "-m", "steepest", *map(str, argv)],
        cwd=place,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert token not in done.stdout + done.stderr
    return done.stdout + done.stderr


def select(place, server, run, *more, model="whole"):
    steepest(
        place, server, "select", "--quiet", "--model", f"user_models:{model}", "--pool", "photos",
        "--weights", f"{model}.safetensors", "-k", "4", "--strategy", "margin", "--run", run,
        "--classes", ",".join(NAMES), *more,
    )  # fmt: skip
    folder = LoopFolder.open(place / run)
    return folder, list(folder.rounds(folder.read_pool())[-1].picks.ids)


def project_of(api, title):
    found = api.get("/api/projects/", title=title)["results"]
    return next(p["id"] for p in found if p["title"] == title)


def tasks_of(api, title):
    path = f"/api/projects/{project_of(api, title)}/export"
    tasks = api.get(path, exportType="JSON", download_all_tasks="true")
    return {task["data"]["steepest_id"]: task for task in tasks}


def choice(*names):
    value = {"choices": list(names)}
    return [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]


def annotate(api, task, result, **more):
    path = f"/api/tasks/{task['id']}/annotations/"
    return api.post(path, {"result": result, **more})


def delete(server, path):
    headers = {"Authorization": f"Token {TOKEN}"}
    request = urllib.request.Request(server + path, headers=headers, method="DELETE")
    with urllib.request.urlopen(request, timeout=60):
        pass


def labels_of(folder):
    return dict(zip(*folder.read_pool().labelled(), strict=True))


def journal(folder):
    return (folder.path / "pool.jsonl").read_bytes()


def test_classes_go_round_in_our_order_with_edits_skips_and_deletions(api, server, place):
    folder, picks = select(place, server, "colours")
    for expected in ("4 new tasks, 0 there", "0 new tasks, 4 there"):
        assert expected in steepest(place, server, "label-studio", "push", "--run", "colours")
    number = project_of(api, "steepest colours")
    tasks = tasks_of(api, "steepest colours")
    assert set(tasks) == set(picks)

    served, made = [], {}
    for _ in picks:
        task = api.get(f"/api/projects/{number}/next/")
        sample = task["data"]["steepest_id"]
        served.append(sample)
        skip = {"was_cancelled": True} if sample == picks[2] else {}
        made[sample] = annotate(api, task, choice(NAMES[1]), **skip)
    assert served == picks

    def pull(*more):
        return steepest(place, server, "label-studio", "pull", "--run", "colours", *more)

    assert "3 new labels, 1 skipped" in pull()
    assert labels_of(folder) == {sample: 1 for sample in picks if sample != picks[2]}
    before = journal(folder)
    assert "4 known already" in pull()
    assert journal(folder) == before

    api.patch(f"/api/annotations/{made[picks[0]]['id']}/", {"result": choice(NAMES[2])})
    delete(server, f"/api/annotations/{made[picks[1]]['id']}/")
    assert "1 changed, 1 withdrawn" in pull()
    assert labels_of(folder) == {picks[0]: 2, picks[3]: 1}
    pool = folder.read_pool()
    assert pool.state(picks[1]) is State.QUERIED
    assert pool.state(picks[2]) is State.SKIPPED
    annotate(api, tasks[picks[2]], choice(NAMES[0]))
    pull()
    assert labels_of(folder)[picks[2]] == 0
    with (folder.path / "labels.csv").open(encoding="utf-8") as file:
        assert file.readline() == "id,label\n"


def test_uploaded_and_local_pictures_are_served(api, server, place):
    select(place, server, "pictures")
    steepest(place, server, "label-studio", "push", "--run", "pictures")
    headers = {"Authorization": f"Token {TOKEN}"}
    for sample, task in tasks_of(api, "steepest pictures").items():
        request = urllib.request.Request(server + task["data"]["image"], headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read() == (place / "photos" / sample).read_bytes()

    root = Path(os.path.commonpath([place.parents[0], place]))
    local = ["--images", "local", "--local-root", root, "--title", "local pictures"]
    steepest(place, server, "label-studio", "push", "--run", "pictures", *local)
    storage = {"project": project_of(api, "local pictures"), "path": str(place / "photos")}
    api.post("/api/storages/localfiles", {**storage, "use_blob_urls": True, "title": "photos"})
    for sample, task in tasks_of(api, "local pictures").items():
        request = urllib.request.Request(server + task["data"]["image"], headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read() == (place / "photos" / sample).read_bytes()


def test_annotators_who_disagree_are_refused_or_outvoted(api, server, place):
    folder, picks = select(place, server, "votes")
    steepest(place, server, "label-studio", "push", "--run", "votes")
    tasks = tasks_of(api, "steepest votes")
    people = [1]
    for name in ("ben", "eva"):
        user = {"email": f"{name}@example.com", "username": name, "first_name": name}
        people.append(api.post("/api/users/", user)["id"])
    for person, name in zip(people, (NAMES[0], NAMES[2], NAMES[2]), strict=True):
        annotate(api, tasks[picks[0]], choice(name), completed_by=person)
    pull = ["label-studio", "pull", "--run", "votes"]
    before = journal(folder)
    assert "annotators disagree" in steepest(place, server, *pull, code=2)
    assert journal(folder) == before
    steepest(place, server, *pull, "--disagreement", "majority")
    assert labels_of(folder) == {picks[0]: 2}


def test_several_classes_each(api, server, place):
    folder, picks = select(place, server, "tags", "--task", "multi-label")
    steepest(place, server, "label-studio", "push", "--run", "tags")
    tasks = tasks_of(api, "steepest tags")
    annotate(api, tasks[picks[0]], choice(NAMES[2], NAMES[0]))
    annotate(api, tasks[picks[1]], [])
    steepest(place, server, "label-studio", "pull", "--run", "tags")
    assert labels_of(folder) == {picks[0]: [0, 2], picks[1]: []}


def test_masks_come_back_as_label_maps(api, server, place):
    folder, picks = select(place, server, "masks", "--task", "segmentation", model="pixels")
    steepest(place, server, "label-studio", "push", "--run", "masks")
    tasks = tasks_of(api, "steepest masks")
    size = {"original_width": 8, "original_height": 6, "image_rotation": 0, "to_name": "image"}
    left = np.zeros((6, 8), dtype=bool)
    left[:, :3] = True
    brush = {"format": "rle", "rle": encode_brush(left), "brushlabels": [NAMES[0]]}
    polygon = {"points": [[50, 0], [100, 0], [100, 50], [50, 50]], "polygonlabels": [NAMES[1]]}
    regions = [
        {**size, "id": "one", "type": "brushlabels", "from_name": "brush", "value": brush},
        {**size, "id": "two", "type": "polygonlabels", "from_name": "polygon", "value": polygon},
    ]
    annotate(api, tasks[picks[0]], regions)
    # What the model guessed is accepted as it is.
    guessed = api.get(f"/api/tasks/{tasks[picks[1]]['id']}/")["predictions"][0]["result"]
    annotate(api, tasks[picks[1]], guessed)
    steepest(
        place,
        server,
        "label-studio",
        "pull",
        "--run",
        "masks",
        "--coco",
        "m.json",
        "--npz",
        "m.npz",
    )
    labels = labels_of(folder)
    expected = np.full((6, 8), 255, dtype=np.uint8)
    expected[:, :3], expected[:3, 4:] = 0, 1
    assert np.array_equal(folder.maps.load(labels[picks[0]]), expected)
    made = folder.rounds(folder.read_pool())[0]
    assert labels[picks[1]] == made.guesses[1]
    coco = json.loads((place / "m.json").read_text())
    assert [category["name"] for category in coco["categories"]] == NAMES
    assert len(coco["images"]) == 2
    with np.load(place / "m.npz") as arrays:
        assert set(arrays["ids"]) == set(picks[:2])


def test_files_travel_by_hand(api, server, place):
    folder, picks = select(
        place, server, "byhand", "--format", "label-studio", "--out", "tasks.json"
    )
    config = (folder.path / "label-studio.xml").read_text()
    number = api.post("/api/projects/", {"title": "by hand", "label_config": config})["id"]
    api.post(f"/api/projects/{number}/import", json.loads((place / "tasks.json").read_text()))
    annotate(api, tasks_of(api, "by hand")[picks[0]], choice(NAMES[2]))
    export = api.get(f"/api/projects/{number}/export", exportType="JSON")
    (place / "export.json").write_text(json.dumps(export))
    for _ in range(2):
        steepest(place, server, "ingest", "export.json", "--run", "byhand")
        assert labels_of(folder) == {picks[0]: 2}


def test_a_personal_token_opens_the_door_and_a_wrong_one_does_not(api, server, place):
    select(place, server, "doors")
    push = ["label-studio", "push", "--run", "doors"]
    assert "does not accept" in steepest(place, server, *push, code=2, token="f" * 40)
    personal = api.post("/api/token/", {})["token"]
    assert personal.count(".") == 2
    assert "4 new tasks" in steepest(place, server, *push, token=personal)


def test_watching_ends_cleanly_and_loses_nothing(api, server, place):
    folder, picks = select(place, server, "watched")
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "LABEL_STUDIO_TOKEN": TOKEN}
    command = ["label-studio", "watch", "--run", "watched", "--url", server, "--interval", "0.5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "steepest", *command],
        cwd=place,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = [process.stdout.readline() for _ in range(2)]
    assert "watching" in lines[0]
    assert "4 new tasks" in lines[1]
    annotate(api, tasks_of(api, "steepest watched")[picks[0]], choice(NAMES[0]))
    assert "1 new label;" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (0, False), out + err
    assert "stopped" in err
    assert TOKEN not in out + err
    assert labels_of(folder) == {picks[0]: 0}

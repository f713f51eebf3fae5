"""The real command: many people at once, Ctrl-C, and kills in the middle of things."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from drawn_shapes import SHAPES, draw_shapes, truth
from label_server import PATIENCE_SECONDS, LabelServer, samples_in

from steepest.labelling.project import Project

CLASSES = ("--classes", ",".join(SHAPES))
LONG = ("--epochs", "100000", "--retrain-every", "6", "--validation-share", "0.1")


def answers_of(photos):
    with Project.open(photos, background=False) as project:
        return {a.sample: a for a in project.queue.history(limit=100_000)}, project.progress()


def work(person, taken, count=1000):
    """Label what is asked until nothing is left, and note what was acknowledged."""
    page = person.get("/task")
    for _ in range(count):
        asked = samples_in(page)
        if not asked:
            return
        page = person.post("/answer", sample=asked[0], label=truth(asked[0]))
        taken.append(asked[0])


def is_alive(process_id):
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children_of(process_id):
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if is_child(path, process_id)
    ]


def is_child(path, process_id):
    try:
        return int(path.read_text().rsplit(")", 1)[1].split()[1]) == process_id
    except OSError:
        return False


@contextmanager
def half_a_request(server):
    """Begin to send a file, and go no further."""
    kept = server.person("slow").client.cookies
    cookies = "; ".join(f"{name}={value}" for name, value in kept.items())
    place = server.base.removeprefix("http://")
    head = ["POST /import HTTP/1.1", f"Host: {place}", f"Cookie: {cookies}", "X-Steepest: 1"]
    head += ["Content-Type: multipart/form-data; boundary=x", "Content-Length: 1000", "", "--x"]
    host, port = place.split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall("\r\n".join(head).encode())
        server.person("quick")  # by then the request before it is being answered
        yield


def test_eight_people_at_once_lose_nothing_and_get_nothing_twice(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 120)
    with LabelServer(photos, *CLASSES, "--retrain-every", "1000") as server:
        people = [server.person(f"person {n}") for n in range(8)]
        taken = [[] for _ in people]
        threads = [
            threading.Thread(target=work, args=pair) for pair in zip(people, taken, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        code, out, problems = server.end()
    assert (code, problems) == (0, "")
    assert f"120 of 120 images are labelled; labels are in {photos}" in out
    times = Counter(sample for one in taken for sample in one)
    assert len(times) == 120
    assert set(times.values()) == {1}
    answers, counts = answers_of(photos)
    assert counts.labelled == 120
    assert all(answer.labels == (truth(sample),) for sample, answer in answers.items())


def test_a_kill_in_the_middle_of_labelling_loses_nothing_acknowledged(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 300)
    with LabelServer(photos, *CLASSES, "--retrain-every", "1000") as server:
        taken = [[] for _ in range(3)]

        def label(number):
            with pytest.raises(httpx.HTTPError):
                work(server.person(f"person {number}"), taken[number])

        threads = [threading.Thread(target=label, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + PATIENCE_SECONDS
        while sum(map(len, taken)) < 40 and time.monotonic() < end:
            time.sleep(0.01)
        server.kill()
        for thread in threads:
            thread.join()
    acknowledged = {sample for one in taken for sample in one}
    assert len(acknowledged) >= 40
    answers, _ = answers_of(photos)
    assert acknowledged <= set(answers)
    # At most one answer for each person was under way and never acknowledged.
    assert len(answers) <= len(acknowledged) + 3


@pytest.mark.slow
def test_a_kill_in_the_middle_of_training_ends_both_and_the_next_start_goes_on(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 40)
    with LabelServer(photos, *CLASSES, *LONG) as server:
        person = server.person("ann")
        person.wait_for("/panel", "Batch 1")
        taken = []
        work(person, taken, 20)
        page = person.wait_for("/panel", "Training</span><progress max")
        assert "/100000" in page
        training = children_of(server.process.pid)
        assert training
        server.kill()
        end = time.monotonic() + PATIENCE_SECONDS
        while any(map(is_alive, training)):
            assert time.monotonic() < end
            time.sleep(0.05)
    with LabelServer(photos, "--epochs", "1", "--name", "ann") as server:
        person = server.person("ann")
        assert "20 <span" in person.wait_for("/panel", "Model 1")
        code, out, _ = server.end()
    assert code == 0
    assert "20 of 40 images are labelled" in out


def test_ctrl_c_while_training_and_amid_a_request_ends_all_and_says_where_labels_are(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 30)
    start = tmp_path / "start.csv"
    rows = [f"{path.name},{truth(path.name)}" for path in sorted(photos.iterdir())[:25]]
    start.write_text("\n".join(["id,label", *rows]))
    with LabelServer(photos, *CLASSES, *LONG, "--labels", str(start)) as server:
        assert any("25 labels added" in line for line in server.said)
        server.person("ann").wait_for("/panel", "Training</span><progress max")
        training = children_of(server.process.pid)
        with half_a_request(server):
            code, out, problems = server.end()
    assert (code, problems) == (0, "")
    assert f"labels are in {photos / '.steepest'}" in out
    assert not any(map(is_alive, training))
    assert os.path.exists(photos / ".steepest" / "labels.sqlite")  # noqa: PTH110


def test_ctrl_c_twice_in_the_middle_of_a_request_shows_no_traceback(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 3)
    with LabelServer(photos, *CLASSES) as server, half_a_request(server):
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        code, out, problems = server.end()
    assert (code, problems) == (0, "")
    assert "0 of 3 images are labelled" in out


def test_the_token_is_said_once_and_never_in_errors_or_in_any_other_file(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 5)
    with LabelServer(photos, *CLASSES) as server:
        token = server.url.partition("token=")[2]
        person = server.person("ann")
        work(person, [], 3)
        for address in ("/nowhere", "/picture?sample=x", "/?token=wrong", f"/task?token={token}"):
            person.client.get(address)
        for kind in ("csv", "jsonl", "zip", "sqlite"):
            given = person.client.get(f"/export/{kind}").raise_for_status().content
            assert token.encode() not in given
        raw = httpx.get(server.base + "/", headers={"host": "evil.example"})
        assert raw.status_code == 403
        _, out, problems = server.end()
    assert len(token) >= 40
    assert "".join(server.said).count(token) == 1
    assert token not in out + problems
    files = [path for path in (photos / ".steepest").rglob("*") if path.is_file()]
    assert [path.name for path in files if token.encode() in path.read_bytes()] == ["token"]
    assert (photos / ".steepest" / "token").stat().st_mode & 0o777 == 0o600


def test_a_server_for_others_says_all_its_addresses(tmp_path):
    photos = draw_shapes(tmp_path / "photos", 3)
    with LabelServer(photos, *CLASSES, "--host", "0.0.0.0") as server:
        said = [line.split()[-1] for line in server.said if "/?token=" in line]
        assert said[0] == server.url
        port, token = server.url.rsplit(":", 1)[1].split("/?token=")
        assert said[-1] == f"http://{socket.gethostname()}:{port}/?token={token}"
        here = f"http://127.0.0.1:{port}/?token={token}"
        name = f"{socket.gethostname().partition('.')[0]}.local:{port}"
        for host, status in ((name, 303), (name.replace(".local", ".evil.example"), 403)):
            assert httpx.get(here, headers={"host": host}).status_code == status
        _, _, problems = server.end()
    assert "can be reached from other machines" in problems

"""A small stand-in for a Label Studio server, which can misbehave where real ones do."""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "0123456789abcdef0123456789abcdef01234567"
PERSONAL = "aaaa.bbbb.cccc"
PAGE_MOST = 100


class FakeLabelStudio:
    """What the server holds, and how it behaves.

    Attributes:
        projects: Projects by number.
        tasks: Tasks by number, each with its project.
        uploads: (project, path, bytes) of each uploaded file.
        failures: For each coming request, a status to fail with; 0 answers as usual.
        forgets: For each coming request, a status to answer with *after* doing what was asked.
        redirect: Where every request is sent to.
        bearer: What a personal access token was last exchanged for.
        asked: (method, path, headers) of each request.
    """

    def __init__(self):
        self.projects = {}
        self.tasks = {}
        self.uploads = []
        self.failures = []
        self.forgets = []
        self.redirect = None
        self.bearer = None
        self.exchanges = 0
        self.asked = []
        self.url = ""
        self._annotations = 0

    def order(self):
        """Our ids in the order in which the server would serve them."""
        served = [t for t in self.tasks.values() if not t["annotations"]]
        served.sort(key=lambda t: t["predictions"][0]["score"])
        return [t["data"]["steepest_id"] for t in served]

    def task_of(self, sample):
        return next(t for t in self.tasks.values() if t["data"].get("steepest_id") == sample)

    def annotate(self, sample, result, person=1, **more):
        """Say something about a sample, as a person does in the browser."""
        self._annotations += 1
        annotation = {
            "id": self._annotations,
            "completed_by": person,
            "result": result,
            "was_cancelled": False,
            "ground_truth": False,
            "updated_at": f"2026-01-01T00:00:{self._annotations:02d}Z",
            **more,
        }
        self.task_of(sample)["annotations"].append(annotation)
        return annotation

    def choose(self, sample, *names, **more):
        value = {"choices": list(names)}
        region = {"from_name": "label", "to_name": "image", "type": "choices", "value": value}
        return self.annotate(sample, [region], **more)

    def answer(self, method, path, query, body, kind):
        """Return status and content for a request that is allowed."""
        if path == "/api/projects/" and method == "GET":
            return 200, self._list(query)
        if path == "/api/projects/" and method == "POST":
            return 201, self._create(json.loads(body))
        if path == "/api/tasks":
            return self._list_tasks(query)
        found = re.fullmatch(r"/api/projects/(\d+)/(.*)", path)
        project = self.projects.get(int(found[1])) if found else None
        if project is None:
            return 404, {"detail": "Not found."}
        return self._about(project, found[2], method, query, body, kind)

    def _about(self, project, rest, method, query, body, kind):
        if rest == "":
            if method == "PATCH":
                project.update(json.loads(body))
            return 200, project
        if rest == "import":
            return 201, self._import(project["id"], query, body, kind)
        if rest == "file-uploads":
            mine = enumerate(self.uploads)
            return 200, [{"id": i, "file": p} for i, (n, p, _) in mine if n == project["id"]]
        if rest == "export":
            every = "download_all_tasks" in query
            tasks = [t for t in self.tasks.values() if t["project"] == project["id"]]
            return 200, [t for t in tasks if every or t["annotations"]]
        return 404, {"detail": "Not found."}

    def _list(self, query):
        wanted = query.get("title", "").lower()
        found = [p for p in self.projects.values() if wanted in p["title"].lower()]
        size, page = min(int(query["page_size"]), 2), int(query["page"])
        part = found[size * (page - 1) : size * page]
        return {"results": part, "next": "more" if size * page < len(found) else None}

    def _create(self, settings):
        number = len(self.projects) + 1
        labels = re.findall(r'<(?:Choice|Label) value="([^"]*)"', settings["label_config"])
        labels = list(dict.fromkeys(name.replace("&amp;", "&") for name in labels))
        kinds = re.findall(r"<(Choices|BrushLabels|PolygonLabels) name", settings["label_config"])
        parsed = {kind.lower(): {"type": kind, "labels": labels} for kind in kinds}
        self.projects[number] = {
            **settings,
            "id": number,
            "model_version": "",
            "parsed_label_config": parsed,
        }
        return self.projects[number]

    def _list_tasks(self, query):
        mine = [t for t in self.tasks.values() if t["project"] == int(query["project"])]
        size, page = min(int(query["page_size"]), PAGE_MOST), int(query["page"])
        part = mine[size * (page - 1) : size * page]
        if not part and page > 1:
            return 404, {"detail": "Invalid page."}
        return 200, {
            "tasks": [{"id": t["id"], "data": t["data"]} for t in part],
            "total": len(mine),
        }

    def _import(self, project, query, body, kind):
        if kind.startswith("multipart/"):
            assert query == {"commit_to_project": "false"}
            for head, content in _parts(body, kind):
                name = re.search(r'filename="([^"]+)"', head)[1]
                path = f"upload/{project}/{len(self.uploads):08x}-{name}"
                self.uploads.append((project, path, content))
            return {"task_count": 0}
        for task in json.loads(body):
            number = len(self.tasks) + 1
            task.update(id=number, project=project, annotations=[])
            self.tasks[number] = task
        return {"task_count": 1}


def _parts(body, kind):
    border = kind.split("boundary=")[1].encode()
    for part in body.split(b"--" + border)[1:-1]:
        head, content = part.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
        yield head.decode(), content.removesuffix(b"\r\n")


@contextmanager
def serving():
    """Start a server on a free port of this machine."""
    state = FakeLabelStudio()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: FakeLabelStudio

    def do_GET(self):
        self._serve("GET")

    def do_POST(self):
        self._serve("POST")

    def do_PATCH(self):
        self._serve("PATCH")

    def _serve(self, method):
        state = self.state
        state.asked.append((method, self.path, dict(self.headers)))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urllib.parse.urlsplit(self.path)
        if state.redirect is not None:
            self._send(302, None, {"Location": state.redirect + self.path})
        elif state.failures and (status := state.failures.pop(0)):
            self._send(status, {"detail": f"on strike, {self.headers.get('Authorization')}"})
        elif parts.path == "/api/token/refresh":
            state.exchanges += 1
            state.bearer = f"pass-{state.exchanges}"
            good = json.loads(body) == {"refresh": PERSONAL}
            self._send(200 if good else 401, {"access": state.bearer})
        elif self.headers.get("Authorization") not in (f"Token {TOKEN}", f"Bearer {state.bearer}"):
            self._send(401, {"detail": "Invalid token."})
        else:
            query = dict(urllib.parse.parse_qsl(parts.query))
            kind = self.headers.get("Content-Type", "")
            status, content = state.answer(method, parts.path, query, body, kind)
            late = state.forgets.pop(0) if state.forgets else 0
            self._send(late or status, content)

    def _send(self, status, content, headers=None):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

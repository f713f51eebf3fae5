"""A real `steepest label` in a process of its own, and people who talk to it as the page does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from typing import Self

import httpx

PATIENCE_SECONDS = 120
_SAMPLE = re.compile(r'name="sample" value="([^"]*)"')


def samples_in(page: str) -> list[str]:
    """Return the samples that a page asks about."""
    return [unescape(found) for found in _SAMPLE.findall(page)]


class LabelServer:
    """The command, until it is ended or killed."""

    def __init__(self, photos: Path, *options: str) -> None:
        command = [sys.executable, "-m", "steepest", "label", str(photos), "--no-browser"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.said: list[str] = []
        self._clients: list[httpx.Client] = []
        self.url = ""
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("Label at "):
                self.url = line.split()[-1]
            if line.startswith("Ctrl-C"):
                break
        if not self.url:
            raise RuntimeError(self.process.communicate()[1])
        self.base = self.url.partition("/?")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.kill()

    def end(self) -> tuple[int, str, str]:
        """Press Ctrl-C, and return the exit code and what was said in the end."""
        for client in self._clients:
            client.close()
        self.process.send_signal(signal.SIGINT)
        out, problems = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, problems

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.communicate()

    def person(self, name: str) -> Person:
        """Let somebody in."""
        client = httpx.Client(base_url=self.base, timeout=60.0)
        self._clients.append(client)
        return Person(client, self.url, name)


class Person:
    """Somebody at the page."""

    def __init__(self, client: httpx.Client, url: str, name: str) -> None:
        self.client = client
        client.headers["X-Steepest"] = "1"
        entered = client.get(url)
        if entered.status_code != 303:
            raise RuntimeError(entered.text)
        self.post("/name", name=name)

    def get(self, address: str) -> str:
        return self.client.get(address).raise_for_status().text

    def post(self, address: str, **form: object) -> str:
        return self.client.post(address, data=form).raise_for_status().text

    def wait_for(self, address: str, words: str) -> str:
        """Ask again and again until a page holds some words."""
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in (page := self.get(address)):
            if time.monotonic() > end:
                raise TimeoutError(f"{words!r} is not on {address}: {page}")
            time.sleep(0.1)
        return page

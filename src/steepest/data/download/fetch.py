"""Download one file: resume where it stopped, try again when dropped, check before it counts."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError

from steepest.core.files import write_atomically
from steepest.core.http_requests import (
    Patience,
    check_url,
    length_of,
    open_url,
    proxy_of,
    range_of,
    version_of,
)
from steepest.core.parsing import parse_json
from steepest.core.progress import Progress, SilentProgress
from steepest.data.download.files import (
    check_room,
    compute_md5,
    count_megabytes,
    explain_write_error,
    format_bytes,
)
from steepest.errors import DataError, first_line

_CHUNK_BYTES = 1 << 18
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_ELSEWHERE = "give another address with --url, or fetch it by hand and give it with --from"


@dataclass(frozen=True)
class Wanted:
    """Expected size and checksum of a file, where known."""

    md5: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Download:
    """One file on its way.

    Attributes:
        url: Where it comes from.
        path: Where it goes; a ``.part`` beside it holds what has come.
        wanted: The expected size and checksum, if known.
        patience: When to give up.
        progress: Where the bytes are shown.
        tell: Takes a line about anything unusual.
    """

    url: str
    path: Path
    wanted: Wanted
    patience: Patience
    progress: Progress
    tell: Callable[[str], None]

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.name


class _AgainError(Exception):
    """This try came to nothing; a further one may do better."""

    def __init__(self, reason: str, asked_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.asked_seconds = asked_seconds


def fetch(
    url: str,
    path: Path,
    wanted: Wanted | None = None,
    *,
    patience: Patience | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> str:
    """Download a file; nothing is at ``path`` before it is whole and checked.

    An interrupted download resumes from its ``.part`` if the server still has the same version.

    Args:
        url: An http or https address.
        path: Where the file goes.
        wanted: Its checksum and size, if they are known.
        patience: When to give up.
        progress: Where the bytes are shown.
        tell: Takes a line about each retry and restart.

    Returns:
        The file's MD5 sum.

    Raises:
        DataError: If it cannot be had, is not the wanted file, or the disk is full.
        InputError: If the address is not one of the web.
    """
    check_url(url)
    job = Download(
        url, path, wanted or Wanted(), patience or Patience(), progress or SilentProgress(), tell
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_write_error(path, error) from error
    part = PartFile(path, url)
    if part.size_bytes:
        tell(f"{job.name}: going on after {format_bytes(part.size_bytes)}")
    while True:
        _fill(part, job)
        md5 = compute_md5(part.path, job.progress)
        if job.wanted.md5 in (None, md5):
            part.finish()
            return md5
        pieced = part.pieced
        part.discard()
        if not pieced:
            raise DataError(
                f"{url}: its MD5 sum is {md5} instead of {job.wanted.md5}, so it is not the "
                f"official file; {_ELSEWHERE}"
            )
        tell(f"{job.name}: the pieces do not make the official file; starting over")


def _fill(part: PartFile, job: Download) -> None:
    """Add to the part until it is complete."""
    failures, most = 0, part.size_bytes
    while not _is_complete(part, job.wanted):
        try:
            _receive(part, job)
            break
        except _AgainError as error:
            # Only new ground counts: a server that always starts over must not keep us for ever.
            if part.size_bytes > most:
                failures, most = 0, part.size_bytes
            failures += 1
            if failures > job.patience.retries:
                raise DataError(
                    f"{job.url}: {error}, {failures} times in a row; "
                    f"run the same command again later to go on, or {_ELSEWHERE}"
                ) from error
            wait = job.patience.wait_seconds(failures, error.asked_seconds)
            job.tell(
                f"{job.name}: {error} after {format_bytes(part.size_bytes)}; trying again in "
                f"{wait:g} s ({failures} of {job.patience.retries})"
            )
            job.patience.sleep(wait)


def _is_complete(part: PartFile, wanted: Wanted) -> bool:
    expected = wanted.size_bytes if part.total_bytes is None else part.total_bytes
    if expected is not None and part.size_bytes > expected:
        part.discard()
    return part.size_bytes > 0 and part.size_bytes == expected


def _receive(part: PartFile, job: Download) -> None:
    """Send one request, and append the response to the partial file."""
    have = part.size_bytes
    if have and not part.validator and job.wanted.md5 is None:
        # Neither the server nor a checksum could tell two versions apart.
        part.discard()
        have = 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    if have and part.validator:
        headers["If-Range"] = part.validator
    try:
        with open_url(job.url, headers, job.patience.timeout_seconds) as response:
            expected = _match(response, part, job)
            _copy(response, part, job, expected)
    except HTTPError as error:
        error.close()
        if error.code == 416:
            part.discard()
            raise _AgainError("the server has a shorter file now") from error
        raise _explain_status(error, job.url) from error
    except (HTTPException, OSError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DataError(
                f"{job.url}: the server's certificate is not valid ({reason.verify_message}); "
                f"{_ELSEWHERE}"
            ) from error
        proxy = proxy_of(job.url)
        through = f" through the proxy {proxy}" if proxy else ""
        raise _AgainError(f"the connection{through} failed ({first_line(reason)})") from error


def _match(response: HTTPResponse, part: PartFile, job: Download) -> int | None:
    """Make the part fit the answer, and return the size of the whole file if it is known."""
    version, have = version_of(response.headers), part.size_bytes
    if response.status == 206 and have:
        start, total = range_of(response.headers) or (None, None)
        # An unknown total or version is no evidence; a different one is.
        changed = start != have or _differ(total, part.total_bytes)
        if changed or (version and part.validator and version != part.validator):
            part.discard()
            raise _AgainError("the file on the server has changed")
        part.pieced = True
        part.total_bytes = part.total_bytes or total
    elif response.status == 200:
        total = length_of(response.headers)
        _check_size(total, job)
        if have:
            job.tell(f"{job.name}: the server starts over from the beginning")
        part.begin(version, total)
    else:
        raise DataError(f"{job.url}: the server answers {response.status}; {_ELSEWHERE}")
    expected = job.wanted.size_bytes if part.total_bytes is None else part.total_bytes
    if expected is not None:
        check_room(part.path.parent, expected - part.size_bytes)
    return expected


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def _check_size(total: int | None, job: Download) -> None:
    size = job.wanted.size_bytes
    if _differ(total, size):
        raise DataError(
            f"{job.url}: {total} bytes instead of {size}, so it is not the official file; "
            f"{_ELSEWHERE}"
        )


def _copy(response: HTTPResponse, part: PartFile, job: Download, expected: int | None) -> None:
    done = part.size_bytes
    with count_megabytes(job.progress, job.name, expected, done) as count:
        while chunk := response.read1(_CHUNK_BYTES):
            part.append(chunk)
            done += len(chunk)
            count(len(chunk))
            if expected is not None and done > expected:
                part.discard()
                raise DataError(f"{job.url}: more than {expected} bytes come; {_ELSEWHERE}")
    if expected is not None and done < expected:
        raise _AgainError("the connection was dropped")


def _explain_status(error: HTTPError, url: str) -> Exception:
    if error.code in _PASSING:
        asked = error.headers.get("Retry-After", "")
        seconds = float(asked) if asked.isascii() and asked.isdecimal() else 0.0
        return _AgainError(f"the server answers {error.code}", seconds)
    return DataError(
        f"{url}: the server answers {error.code} ({first_line(error.reason)}); {_ELSEWHERE}"
    )


class PartFile:
    """``NAME.part`` beside the target, and ``NAME.part.json`` with the version it belongs to.

    The notes are on the disk before the first byte, so whatever a kill leaves behind is a
    beginning of the version that they name.

    Args:
        target: Where the whole file will be.
        url: Where it comes from; a part of another address is dropped.

    Attributes:
        path: The part.
        validator: The server's ETag or date of this version; empty if it gives none.
        total_bytes: The size of the whole file, if the server states it.
        pieced: Whether the bytes came in more than one answer.
    """

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(target.name + ".part")
        self._target = target
        self._notes = target.with_name(target.name + ".part.json")
        self._url = url
        self.validator = ""
        self.total_bytes: int | None = None
        self.pieced = self._read_notes() and self.size_bytes > 0
        if not self.pieced:
            self.discard()

    @property
    def size_bytes(self) -> int:
        """Number of bytes downloaded so far."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, validator: str, total_bytes: int | None) -> None:
        """Start from nothing with a version of the file.

        Raises:
            DataError: If it cannot be written.
        """
        self.discard()
        self.validator, self.total_bytes = validator, total_bytes
        notes = {"url": self._url, "validator": validator, "total_bytes": total_bytes}
        write_atomically(self._notes, json.dumps(notes) + "\n")

    def append(self, data: bytes) -> None:
        """Write further bytes; they are with the system when this returns.

        Raises:
            DataError: If the disk is full or refuses; the part stays for the next try.
        """
        try:
            with self.path.open("ab", buffering=0) as file:
                while data:
                    data = data[file.write(data) :]
        except OSError as error:
            kept = f"{format_bytes(self.size_bytes)} are kept in {self.path.name}"
            raise explain_write_error(self._target, error, kept) from error

    def discard(self) -> None:
        """Forget everything.

        Raises:
            DataError: If the files cannot be removed.
        """
        self.validator, self.total_bytes, self.pieced = "", None, False
        try:
            self.path.unlink(missing_ok=True)
            self._notes.unlink(missing_ok=True)
        except OSError as error:
            raise explain_write_error(self.path, error) from error

    def finish(self) -> None:
        """Make the part the whole file.

        Raises:
            DataError: If that fails.
        """
        try:
            with self.path.open("ab") as file:
                os.fsync(file.fileno())
            self.path.replace(self._target)
            self._notes.unlink(missing_ok=True)
        except OSError as error:
            raise explain_write_error(self._target, error) from error

    def _read_notes(self) -> bool:
        """Read the note of a partial download; return whether it belongs to this file."""
        try:
            notes = parse_json(self._notes.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                raise DataError(f"{self._notes}: cannot be read ({error.strerror})") from error
            return False
        if not isinstance(notes, dict) or notes.get("url") != self._url:
            return False
        validator, total = notes.get("validator"), notes.get("total_bytes")
        if not isinstance(validator, str) or not (total is None or type(total) is int):
            return False
        self.validator, self.total_bytes = validator, total
        return True

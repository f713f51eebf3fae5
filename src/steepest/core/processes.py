"""Worker processes: one child with its pipe, a team of them, and the base of executors.

An executor, ``Workers``, answers items in processes: ``SpawnedWorkers`` on this machine,
``RayWorkers`` on a cluster.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

from steepest.core.own_code import own_code_importable
from steepest.errors import SteepestError, in_one_line

_PATIENCE_SECONDS = 5.0
"""Seconds to wait for a process to end before it is killed or abandoned."""

_POLL_SECONDS = 0.5
_UP, _TOLD, _ANSWER = "up", "told", "answer"


def main_can_be_imported() -> bool:
    """Say whether there is a file to run again: not in a notebook, nor for what was typed in."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    # Of a program from the standard input, the file is named "<stdin>".
    return main.__spec__ is not None or (file is not None and Path(file).is_file())


@contextmanager
def main_hidden(hidden: bool) -> Iterator[None]:
    """Show multiprocessing an empty main module, which it has no reason to run again."""
    main: Any = sys.modules["__main__"]
    if hidden:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def end_with_parent() -> None:
    """Let this process end when the one that started it is gone, and not by Ctrl-C before."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer.
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


Work = Callable[[Any, Any], Any]
"""Maps the data common to a round, and one item, to an answer."""


class Workers(Protocol):
    """Processes that answer one item after another.

    An item may be worked on more than once, such as after a process was killed.
    """

    def answers(
        self,
        make: Callable[[], Work],
        common: object,
        items: Sequence[object],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each item and its answer, as they come.

        Args:
            make: Returns the function that does the work; called in each process.
            common: The data common to all items; sent to each worker once.
            items: One for each piece of work.
            meanwhile: Called now and then.

        Raises:
            SteepestError: If no worker can be had.
            Exception: Whatever the work raised.
        """


@dataclass(frozen=True)
class Failure:
    """An error on its way to another process."""

    error: Exception


def tried(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
    """Return the result of a piece of work, or its error as a ``Failure``."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the work may be of anyone's code
        return Failure(sendable(error))


def sendable(error: Exception, instead: Exception | None = None) -> Exception:
    """Return an error that survives the way to another process, and tells where it comes from.

    Args:
        error: Being handled.
        instead: The object to send in its place.
    """
    sent = error if instead is None else instead
    try:
        pickle.loads(pickle.dumps(sent))  # noqa: S301 - just made
    except Exception:  # noqa: BLE001 - its class may need more than its message
        plain = isinstance(error, SteepestError)
        sent = SteepestError(str(error)) if plain else RuntimeError(in_one_line(error))
    sent.add_note(f"In a worker process:\n{traceback.format_exc()}")
    return sent


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C from their first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may change how signals are dealt with.
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Child:
    """A worker process with a line to it, as seen by the process that starts it.

    Args:
        serve: Called in the process with its end of the line and the arguments.
        arguments: Sent when it starts.
        context: How it starts; by default it is spawned.
        needs_main: Whether it runs the main file, which may define what it is sent.
        daemon: Whether it may start no processes itself.

    Raises:
        OSError: If it cannot be started.
    """

    def __init__(
        self,
        serve: Callable[..., None],
        *arguments: object,
        context: BaseContext | None = None,
        needs_main: bool = False,
        daemon: bool = False,
    ) -> None:
        context = context or multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(theirs, *arguments), daemon=daemon
        )
        try:
            with main_hidden(not needs_main), own_code_importable(), interrupts_ignored():
                self.process.start()
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()

    def stop(self, *, at_once: bool) -> None:
        """Let the process end: as soon as it waits for more, or now."""
        self.line.close()
        if at_once:
            self.process.terminate()

    def wait(self) -> None:
        """Wait until it has ended."""
        for end in (self.process.terminate, self.process.kill):
            self.process.join(_PATIENCE_SECONDS)
            if self.process.is_alive():
                end()
        self.process.join(_PATIENCE_SECONDS)
        if not self.process.is_alive():  # A device that hangs may hold it.
            self.process.close()

    def exit_code(self) -> int:
        """Return how a process ended whose line broke: below zero, by which signal."""
        self.process.join(_PATIENCE_SECONDS)
        return self.process.exitcode or 0


def name_end(code: int) -> str:
    """Return an exit code in words."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class WorkerEndedError(RuntimeError):
    """A worker process ended before it had answered; callers add the remedy.

    Attributes:
        code: Its exit code.
        begun: Whether it had come as far as asking for work.
    """

    def __init__(self, code: int, *, begun: bool) -> None:
        super().__init__(f"a worker process was killed ({name_end(code)})")
        self.code = code
        self.begun = begun


class SpawnedWorkers:
    """Processes of this machine, from when they are first needed until the ``with`` block ends.

    If the block ends by an error, they are terminated.

    Args:
        count: How many at most.
        needs_main: Whether they run the main file.
    """

    def __init__(self, count: int, *, needs_main: bool = False) -> None:
        self._count = count
        self._needs_main = needs_main
        self._children: list[Child] = []
        self._begun: set[Child] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end(self._children, at_once=kind is not None)
        self._children = []

    def answers(
        self,
        make: Callable[[], Work],
        common: object,
        items: Sequence[object],
        meanwhile: Callable[[], None] = lambda: None,
        told: Callable[[Any], None] = lambda _: None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number of each item and its answer, as they come.

        Args:
            make: As for ``Workers``.
            common: As for ``Workers``.
            items: As for ``Workers``.
            meanwhile: As for ``Workers``.
            told: Called with whatever the work passes to ``tell``.

        Raises:
            WorkerEndedError: If a process ended.
            Exception: Whatever the work raised.
        """
        # Plain bytes: tensors would go through shared memory, which is small in containers.
        job = pickle.dumps((make, common))
        packed = [pickle.dumps(item) for item in items]
        for _ in range(len(self._children), min(self._count, len(items))):
            self._children.append(Child(_serve, needs_main=self._needs_main))
        waiting, idle = deque(enumerate(packed)), deque(self._children)
        informed: set[Child] = set()
        busy: dict[Connection, tuple[Child, int]] = {}
        try:
            while waiting or busy:
                meanwhile()
                while waiting and idle:
                    child, (number, item) = idle.popleft(), waiting.popleft()
                    self._give(child, None if child in informed else job, item)
                    informed.add(child)
                    busy[child.line] = child, number
                for line in wait(list(busy), _POLL_SECONDS):
                    child, number = busy[line]  # type: ignore[index]
                    kind, value = self._take(child)
                    if kind == _UP:
                        self._begun.add(child)
                    elif kind == _TOLD:
                        told(value)
                    else:
                        del busy[child.line]
                        idle.append(child)
                        yield number, value
        finally:
            if busy:  # Their answers are wanted no more.
                left = [child for child, _ in busy.values()]
                self._children = [child for child in self._children if child not in left]
                self._end(left, at_once=True)

    def _give(self, child: Child, job: bytes | None, item: bytes) -> None:
        try:
            child.line.send_bytes(pickle.dumps((job, item)))
        except OSError as error:
            raise self._ended(child) from error

    def _take(self, child: Child) -> tuple[str, Any]:
        try:
            kind, value = pickle.loads(child.line.recv_bytes())  # noqa: S301 - of our own process
        except (EOFError, OSError) as error:
            raise self._ended(child) from error
        if isinstance(value, Failure):
            raise value.error
        return kind, value

    def _ended(self, child: Child) -> WorkerEndedError:
        return WorkerEndedError(child.exit_code(), begun=child in self._begun)

    def _end(self, children: Sequence[Child], *, at_once: bool) -> None:
        for child in children:
            child.stop(at_once=at_once)
        for child in children:
            child.wait()


_lines: list[Connection] = []
"""The line of this process, if it is a spawned worker."""


def tell(value: object) -> None:
    """Send a value to ``told`` of the ``answers`` that this work is done for."""
    for line in _lines:
        line.send_bytes(pickle.dumps((_TOLD, value)))


def _serve(line: Connection) -> None:
    """Do requested work until the pipe is closed: the main loop of a worker."""
    end_with_parent()
    _lines.append(line)
    held: list[Any] = []

    def answer(job: bytes | None, item: bytes) -> bytes:
        if job is not None:
            held.clear()  # Its memory is needed by the next.
            make, common = pickle.loads(job)  # noqa: S301 - packed by this program
            held[:] = make(), common
        work, common = held
        return pickle.dumps((_ANSWER, work(common, pickle.loads(item))))  # noqa: S301 - as above

    try:
        line.send_bytes(pickle.dumps((_UP, None)))
        while True:
            job, item = pickle.loads(line.recv_bytes())  # noqa: S301 - as above
            found = tried(functools.partial(answer, job, item))
            failed = isinstance(found, Failure)
            line.send_bytes(pickle.dumps((_ANSWER, found)) if failed else found)
    except (EOFError, OSError):
        return

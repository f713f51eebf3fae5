"""The training process: ``python -m steepest.labelling.project.worker FOLDER PHOTOS TOKEN``.

It ends when its standard input does, and so with the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import torch

from steepest.core.devices import usable_cores
from steepest.errors import SteepestError, first_line, in_one_line
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.labelling.project.trainings import fail

_NICENESS = 5
_ORPHANED = 3


def main(arguments: list[str]) -> int:
    """Carry out the training that waits, and note what went wrong if something does."""
    folder, photos, token = Path(arguments[0]), Path(arguments[1]), arguments[2]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Control-C in a terminal reaches all its processes; the one that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        # People who click must not wait for a machine that learns.
        os.nice(_NICENESS)
    torch.set_num_threads(max(1, usable_cores() - 1))
    store = Store(folder / FILE_NAME)
    try:
        run_round(store, photos, token)
    except Exception as error:  # noqa: BLE001 - the page shows it, whatever it is
        traceback.print_exc()  # into the log
        _note_failure(store, token, error)
        return 1
    finally:
        store.close()
    return 0


def _note_failure(store: Store, token: str, error: Exception) -> None:
    line = first_line(error) if isinstance(error, SteepestError) else in_one_line(error)
    with store.writing() as connection:
        row = connection.execute(
            "SELECT number FROM trainings WHERE token = ? AND status = 'running'", (token,)
        ).fetchone()
        if row is not None:
            fail(connection, row["number"], line, time.time())


def _end_with_parent() -> None:
    # Not by sys.stdin: a thread that waits in it makes the interpreter abort when it ends.
    while os.read(sys.stdin.fileno(), 1 << 16):
        pass
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

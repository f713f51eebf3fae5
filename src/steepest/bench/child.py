"""Scoring in a separate process, whose end by a signal ends nothing else.

Some processors report instructions for bf16 that they do not carry out, and torch dies of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, SilentProgress
from steepest.gradnorm import GradientNorms, Norm, Precision

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
SAFER_ISA = "AVX512_CORE_BF16"
_BATCH = {"cpu": 64, "cuda": 512}


class ChildError(RuntimeError):
    """The process did not finish; says why in one line."""

    def __init__(self, code: int, last_words: str) -> None:
        self.illegal = -code == signal.SIGILL
        ended = f"ended by {_signal_name(-code)}" if code < 0 else f"ended with code {code}"
        super().__init__(f"the scoring process {ended}{': ' if last_words else ''}{last_words}")


@dataclass(frozen=True)
class Job:
    """Settings from which a child process rebuilds the model and scores.

    Attributes:
        model: A name for ``steepest.models.build``.
        classes: The number of classes.
        channels: The number of image channels.
        norm: The norm.
        precision: How products are computed.
        threads: CPU threads.
    """

    model: str
    classes: int
    channels: int
    norm: Norm
    precision: Precision
    threads: int


def score_in_child(job: Job, model: nn.Module, pool: Tensor) -> tuple[npt.NDArray[np.float64], str]:
    """Score a pool on the CPU in another process, and once more with safer instructions.

    Args:
        job: The job to run.
        model: Its weights are handed over.
        pool: Samples [N, ...].

    Returns:
        Norms [N], and a note for the reader of the numbers.

    Raises:
        ChildError: If the process did not finish.
    """
    with tempfile.TemporaryDirectory(prefix="steepest-") as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(vars(job)), encoding="utf-8")
        torch.save({"weights": model.state_dict(), "pool": pool}, folder / "given.pt")
        try:
            _run(folder, os.environ)
            note = ""
        except ChildError as error:
            if not error.illegal or ISA_VARIABLE in os.environ:
                raise
            _run(folder, {**os.environ, ISA_VARIABLE: SAFER_ISA})
            note = f"with {ISA_VARIABLE}={SAFER_ISA}; without it, {error}"
        return np.load(folder / "norms.npy"), note


def _run(folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - this very interpreter and module
        [sys.executable, "-P", "-m", "steepest.bench.child", str(folder)],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ChildError(done.returncode, lines[-1] if lines and done.returncode > 0 else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def score_pool(
    model: nn.Module, pool: Tensor, norm: Norm, precision: Precision, progress: Progress
) -> npt.NDArray[np.float64]:
    """Return the norm of each sample's entropy gradient [N].

    Args:
        model: In eval mode, on its device.
        pool: Samples [N, ...], on any device.
        norm: The norm.
        precision: How products are computed.
        progress: Updated after each batch.
    """
    device = next(model.parameters()).device
    norms = GradientNorms(model, "entropy", norm=norm, precision=precision)
    parts = []
    with progress.task(f"scoring in {precision}", len(pool)) as step:
        for batch in torch.split(pool, _BATCH[device.type]):
            parts.append(norms(batch.to(device)).double().cpu())
            step.advance(len(batch))
    scores: npt.NDArray[np.float64] = torch.cat(parts).numpy()
    return scores


def main(folder: Path) -> None:
    """Do the job that lies in a folder."""
    from steepest.models import build

    job = Job(**json.loads((folder / "job.json").read_text(encoding="utf-8")))
    torch.set_num_threads(job.threads)
    given = torch.load(folder / "given.pt", weights_only=True)
    model = build(job.model, job.classes, job.channels, seed=0)
    model.load_state_dict(given["weights"])
    norms = score_pool(model.eval(), given["pool"], job.norm, job.precision, SilentProgress())
    np.save(folder / "norms.npy", norms)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

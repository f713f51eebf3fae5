"""Exact per-sample gradient norms beside a plain forward and backward pass, in one process.

Rounds are interleaved and the best of each is kept, so that a busy machine disturbs both alike;
read the ratio, not the seconds. Run it with::

    python benchmarks/gradient_norms.py --batch 16 --threads 1
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable

import torch

from steepest.gradnorm.engine import Engine
from steepest.gradnorm.losses import entropy, resolve
from steepest.models import build


def measure(work: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the best CPU seconds of each piece of work, taken in turns."""
    best = dict.fromkeys(work, float("inf"))
    for turn in range(rounds + 1):
        for name, run in work.items():
            start = time.process_time()
            run()
            if turn:  # The first round warms up.
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    """Measure CIFAR ResNet-18 and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = build("cifar-resnet18", classes=10, channels=3, seed=0).eval()
    x = torch.randn(arguments.batch, 3, 32, 32)
    parameters = list(model.parameters())
    engine, losses = Engine(model), resolve("entropy", None, len(x))

    def loop() -> None:
        for sample in x.split(1):
            torch.autograd.grad(entropy(model(sample)).sum(), parameters)

    seconds = measure(
        {
            "forward and backward": lambda: torch.autograd.grad(
                entropy(model(x)).sum(), parameters
            ),
            "gradient norms": lambda: engine.squared_norms(x, losses),
            "loop over single samples": loop,
        },
        arguments.rounds,
    )
    plain = seconds["forward and backward"]
    result = {
        "model": "cifar-resnet18",
        "ratio to forward and backward": {k: round(v / plain, 3) for k, v in seconds.items()},
        **vars(arguments),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

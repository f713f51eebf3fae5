"""The first cycle of a seed, trained once and shared by all strategies of a comparison.

Until something is chosen, the strategy has no say: the initial set, the weights and the order of
training depend on the seed alone. Whoever trains the first cycle leaves its weights here, under a
key that holds all that decided them; who finds them uses them, and nobody waits.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.memory import measured
from steepest.core.tables import from_table, to_table
from steepest.core.tensor_file import read_tensors, write_tensors
from steepest.data import ImageSet
from steepest.data.identity import TEST_CONTENT, identify
from steepest.errors import DataError, InputError, SlowPathWarning
from steepest.experiment.config import Config
from steepest.experiment.environment import code_of, describe_environment
from steepest.experiment.record import Cost
from steepest.experiment.setup import Setup
from steepest.modules.fingerprint import fingerprint
from steepest.pool import Pool
from steepest.training import Checkpoint, Extra


class SharedCycle:
    """The trained weights of one seed's first cycle, on disk.

    Args:
        path: The file, before the beginning of the key is added to its name; it may not be there
            yet, or be of something else.
        key: The identity of this training.
    """

    def __init__(self, path: Path, key: str) -> None:
        # Strategies that ask for other models, such as dropout, share their own training.
        self.path = path.with_stem(f"{path.stem}-{key[:8]}")
        self._key = key

    def load(self, model: nn.Module, device: torch.device) -> Cost | None:
        """Give the model the shared weights, as if it had been trained here.

        Returns:
            What the training cost where it was made; None if it has to be made here, and then
            the model is as it was.
        """
        # It saves time and nothing else: without it the cycle is trained here.
        try:
            found = read_tensors(self.path)
        except DataError as error:
            warnings.warn(f"the cycle is trained anew: {error}", SlowPathWarning, stacklevel=2)
            return None
        if found is None or found[1]["key"] != self._key:
            return None
        tensors, about = found
        cost = from_table(Cost, about["cost"])
        before = {name: value.clone() for name, value in model.state_dict().items()}
        try:
            model.load_state_dict(tensors)
            whole = fingerprint(model) == about["model"]
        except (KeyError, RuntimeError):
            whole = False
        if not whole:
            model.load_state_dict(before)
            return None
        model.to(device).eval()
        return replace(cost, shared=True)

    def save(self, model: nn.Module, cost: Cost) -> None:
        """Leave the weights of a finished training to others."""
        state = model.state_dict()
        if not all(isinstance(value, Tensor) for value in state.values()):
            return  # Not to be written down in full, so not to be shared.
        about = {"key": self._key, "model": fingerprint(model), "cost": to_table(cost)}
        try:
            write_tensors(self.path, state, about)
        except InputError as error:
            warnings.warn(f"the cycle is not shared: {error}", SlowPathWarning, stacklevel=2)


def train_cycle(
    setup: Setup,
    model: nn.Module,
    pool: Pool,
    cycle: int,
    checkpoint: Checkpoint,
    extra: Extra | None,
    shared: Path | None,
) -> Cost:
    """Train a cycle's model, or give it the weights of the same training in another run.

    Args:
        setup: Says how it is trained.
        model: Trained in place.
        pool: The pool, with the labelled samples.
        cycle: The cycle.
        checkpoint: Where the state of the training is kept.
        extra: A head that is trained along.
        shared: The file through which runs share their first cycle.
    """
    first: SharedCycle | None = None
    if cycle == 0 and shared is not None and extra is None:
        first = SharedCycle(shared, shared_key(setup.config, setup.data, model, pool, setup.device))
        if cost := first.load(model, setup.device):
            return cost
    with measured(setup.device) as spent:
        result = setup.fit(model, pool, checkpoint, ("training", cycle), extra)
    cost = Cost(
        seconds=result.seconds, peak_bytes=spent.peak_bytes, epochs=setup.config.training.epochs
    )
    if first is not None:
        first.save(model, cost)
    return cost


def shared_key(
    config: Config, data: ImageSet, model: nn.Module, pool: Pool, device: torch.device
) -> str:
    """Return the identity of a first training run.

    Args:
        config: All of it counts but the strategy and the name.
        data: Its content, normalisation and augmentation count.
        model: Before the training: its first weights count, whatever file they are from.
        pool: The labelled samples and their labels count.
        device: What it is trained on counts, and so do the versions of what trains it.
    """
    table: dict[str, Any] = config.to_table()
    parts = {key: value for key, value in table.items() if key not in {"strategy", "name"}}
    if code := code_of(config, strategy=False):
        parts["code"] = code  # A model may have changed, and begin with the same weights.
    # No training sees a test label.
    identity = {key: value for key, value in identify(data).items() if key != TEST_CONTENT}
    whole = [
        parts,
        describe_environment(device),
        [identity, list(data.mean), list(data.std), data.augmentation],
        fingerprint(model),
        pool.labelled(),
    ]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

"""scikit-activeml's own selection from the same samples, to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.bench.memory import check_room

SKACTIVEML: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "badge": ("Badge", {}),
    "core-set": ("CoreSet", {}),
    "entropy": ("UncertaintySampling", {"method": "entropy"}),
    "least-confidence": ("UncertaintySampling", {"method": "least_confident"}),
    "margin": ("UncertaintySampling", {"method": "margin_sampling"}),
    "probcover": ("ProbCover", {}),
    "typiclust": ("TypiClust", {}),
}
"""Its class and what that is given, by the strategy of ours; all else is as it comes."""

_WRAPPED = "the head as its classifier, not fitted again"
DIFFERENT = {
    "badge": f"{_WRAPPED}; draws of its own",
    "entropy": _WRAPPED,
    "least-confidence": _WRAPPED,
    "margin": _WRAPPED,
    "probcover": "features of length 1, as ours makes them; the radius is one of its ten",
    "typiclust": "as many clusters as there will be labels (ours: at most 500); 5 neighbours",
}
"""Differences from our implementation, reported with the result."""

_BATCH = 4096
_DOUBLE = 8
_HOST = torch.device("cpu")


def load_package() -> None:
    """Import the package: what that takes is not the cost of a choice."""
    import_module("skactiveml.pool")


def choose_by_skactiveml(
    strategy: str, model: nn.Module, pool: Tensor, labelled: int, k: int
) -> list[int]:
    """Return the positions in the pool that scikit-activeml chooses.

    Args:
        strategy: One of ``SKACTIVEML``.
        model: A head on features.
        pool: Samples [N, ...], the labelled ones first.
        labelled: How many these are.
        k: How many to choose.

    Raises:
        MemoryError: If what it makes cannot fit.
    """
    # It works on the host alone; on a CPU these are the same bytes.
    features = pool.flatten(1)
    if strategy == "probcover":
        features = nn.functional.normalize(features)
    with torch.no_grad():
        classes = model(pool[:1]).shape[1]
    check_room(_needed_bytes(strategy, features.shape, classes, k), _HOST)
    rows = features.cpu().numpy()
    targets = np.full(len(rows), np.nan)
    targets[:labelled] = np.arange(labelled) % classes
    kind, options = SKACTIVEML[strategy]
    query = getattr(import_module("skactiveml.pool"), kind)(random_state=0, **options).query
    if strategy in ("core-set", "probcover", "typiclust"):
        found = query(rows, targets, batch_size=k)
    else:
        head = _classifier(model, pool.device, classes)
        found = query(rows, targets, clf=head, fit_clf=False, batch_size=k)
    return [int(position) for position in found]


def _needed_bytes(strategy: str, shape: torch.Size, classes: int, k: int) -> int:
    """Return what it makes at least: scores of all samples for each pick, and more for some."""
    samples, features = shape
    if strategy == "probcover":
        # Distances between all pairs, their edges, impure pairs and the product of both.
        return 7 * samples * samples
    gradients = 2 * samples * features * classes if strategy == "badge" else 0
    return _DOUBLE * (gradients + k * samples)


def _classifier(model: nn.Module, device: torch.device, classes: int) -> Any:  # noqa: ANN401
    """Return a trained head in the class that its strategies ask for."""
    base: Any = import_module("skactiveml.base").SkactivemlClassifier

    class Head(base):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:  # noqa: ANN401, ARG002, N803 - its names
            return self

        def predict_proba(self, X: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:  # noqa: N803
            with torch.no_grad():
                parts = torch.split(torch.from_numpy(X), _BATCH)
                shares = [model(part.to(device)).double().softmax(1).cpu() for part in parts]
            return torch.cat(shares).numpy()

    return Head(classes=list(range(classes)))

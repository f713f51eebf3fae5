"""Selection by scikit-activeml and in the style of public code, and their picks beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.bench.feature_pool import make_head, make_pool
from steepest.bench.measuring import check_room
from steepest.core.seeds import generator

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
_FLOAT = 4
LEFT_OUT = {"core-gcn": "the graph and one product with it, without the training"}
"""Limitations of an implementation, reported with the result."""
_TILE = 1024
_WITH_DISTANCES = ("badge", "core-set", "probcover", "typiclust")


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


def core_set(model: nn.Module, pool: Tensor, labelled: int, k: int) -> list[int]:
    """Greedy k-centre on the full matrix of distances between all samples."""
    total = len(pool)
    # The squares, the products and the result are matrices of that size at one time.
    check_room(3 * _FLOAT * total * total, pool.device)
    del model
    distances = torch.cdist(pool.flatten(1), pool.flatten(1))
    nearest = distances[:, :labelled].min(1).values
    picks: list[int] = []
    for _ in range(k):
        pick = int(nearest.argmax())
        picks.append(pick)
        nearest = torch.minimum(nearest, distances[:, pick])
    return picks


def badge(model: nn.Module, pool: Tensor, labelled: int, k: int) -> list[int]:
    """k-means++ on gradient embeddings that are written out in full."""
    embeddings = gradient_embeddings(model, pool[labelled:])
    random = generator(0, "public badge")
    picks = [int(embeddings.norm(dim=1).argmax())]
    nearest = (embeddings - embeddings[picks[0]]).square().sum(1)
    for _ in range(k - 1):
        picks.append(int(torch.multinomial(nearest.cpu().double(), 1, generator=random)))
        nearest = torch.minimum(nearest, (embeddings - embeddings[picks[-1]]).square().sum(1))
    return picks


def gradient_embeddings(model: nn.Module, samples: Tensor) -> Tensor:
    """Write out the last layer's gradients [N, C · D], with the likeliest class as the label."""
    features = samples.flatten(1)
    with torch.no_grad():
        shares = torch.cat([model(part) for part in torch.split(samples, 4096)]).softmax(1)
    check_room(2 * _FLOAT * features.numel() * shares.shape[1], samples.device)
    errors = torch.nn.functional.one_hot(shares.argmax(1), shares.shape[1]) - shares
    return torch.einsum("nc,nd->ncd", errors, features).flatten(1)


def core_gcn_graph(model: nn.Module, pool: Tensor, labelled: int, k: int) -> list[int]:
    """The adjacency matrix of all samples and one product with it, of the 400 that are needed."""
    total = len(pool)
    check_room(3 * _FLOAT * total * total, pool.device)
    del model
    features = nn.functional.normalize(pool.flatten(1))
    adjacency = features @ features.T
    adjacency.fill_diagonal_(0)
    adjacency = adjacency / adjacency.sum(0) + torch.eye(total, device=pool.device)
    out = adjacency @ features[:, :128]
    return out[labelled:, 0].topk(k).indices.tolist()


def herding(model: nn.Module, pool: Tensor, labelled: int, k: int) -> list[int]:
    """Every gain for every pick, from the full matrix of kernels between candidates."""
    samples = pool[labelled:]
    weights, rows = _norms(model, samples)
    count = len(rows)
    check_room(3 * _FLOAT * count * count, pool.device)
    places = nn.functional.normalize(rows)
    squares = torch.cdist(places, places).square_()
    width = squares.kthvalue(max(1, count // (k + labelled)) + 1, dim=1).values.median()
    kernels = squares.mul_(-0.5 / width).exp_()
    known = nn.functional.normalize(pool[:labelled].flatten(1))
    covered = rows.new_zeros(count)
    for part in torch.split(torch.arange(count, device=pool.device), 4096):
        if labelled:
            away = torch.cdist(places[part], known).square()
            covered[part] = (away * (-0.5 / width)).exp().amax(1)
    picks: list[int] = []
    for _ in range(k):
        gains = weights @ (kernels - covered[:, None]).clamp_min(0)
        gains[picks] = -torch.inf
        picks.append(int(gains.argmax()))
        covered = torch.maximum(covered, kernels[picks[-1]])
    return picks


def design(model: nn.Module, pool: Tensor, labelled: int, k: int) -> list[int]:
    """A new inverse, and both forms of all candidates, for every pick."""
    weights, rows = _norms(model, pool)
    weights = weights.square() / (rows.square().sum(1) + 1)
    z = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
    moment = torch.eye(z.shape[1], device=pool.device)
    moment = moment + z[:labelled].T @ (z[:labelled] * weights[:labelled, None])
    z, weights = z[labelled:], weights[labelled:]
    fisher = z.T @ (z * weights[:, None]) / len(z)
    picks: list[int] = []
    for _ in range(k):
        inverse = torch.linalg.inv(moment)
        spread = ((z @ inverse) * z).sum(1)
        effect = ((z @ (inverse @ fisher @ inverse)) * z).sum(1)
        gains = weights * effect / (1 + weights * spread)
        gains[picks] = -torch.inf
        picks.append(int(gains.argmax()))
        moment = moment + weights[picks[-1]] * torch.outer(z[picks[-1]], z[picks[-1]])
    return picks


def _norms(model: nn.Module, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradient norms over the last layer [N], and features [N, D]."""
    rows = samples.flatten(1)
    with torch.no_grad():
        p = torch.cat([model(part) for part in torch.split(samples, 4096)]).softmax(1)
    return ((1 - p.square().sum(1)) * (rows.square().sum(1) + 1)).sqrt(), rows


STRAIGHTFORWARD: dict[str, Callable[[nn.Module, Tensor, int, int], list[int]]] = {
    "core-set": core_set,
    "badge": badge,
    "core-gcn": core_gcn_graph,
    "gradnorm-herding": herding,
    "gradnorm-design": design,
}
"""By the strategy that they are compared with."""


@dataclass(frozen=True)
class Picks:
    """Another way's picks beside ours.

    Distances are from every candidate to the nearest sample that is labelled or chosen, in the
    space in which the strategy measures them; for badge those are gradients, of chosen ones alone.

    Attributes:
        distinct: How many different samples it chose.
        same: How many of them are among ours.
        mean: Mean distance; None for strategies that give each sample a score of its own.
        largest: Largest distance, the cover radius.
        our_mean: Mean distance with our picks.
        our_largest: Largest distance with our picks.
    """

    distinct: int
    same: int
    mean: float | None = None
    largest: float | None = None
    our_mean: float | None = None
    our_largest: float | None = None

    def __str__(self) -> str:
        text = f"{self.same} of {self.distinct} picks are ours"
        if self.mean is None or self.same == self.distinct:
            return text
        return (
            f"{text}, distances {self.mean:.4g} on average and {self.largest:.4g} at most "
            f"(ours {self.our_mean:.4g} and {self.our_largest:.4g})"
        )


def compare_picks(job: Mapping[str, Any], ours: Sequence[int], theirs: Sequence[int]) -> Picks:
    """Compare picks of one trial.

    Args:
        job: What both trials were given.
        ours: Positions of our picks [k].
        theirs: Positions of the others' picks [k].
    """
    distinct, same = len(set(theirs)), len(set(theirs) & set(ours))
    if job["strategy"] not in _WITH_DISTANCES:
        return Picks(distinct, same)
    rows, known = _space(job)
    found = [_distances(rows, [*known, *picks], job["labelled"]) for picks in (theirs, ours)]
    return Picks(distinct, same, *(float(f) for d in found for f in (d.mean(), d.max())))


def _space(job: Mapping[str, Any]) -> tuple[Tensor, range]:
    """Return the rows between which a strategy measures distances, and those covered before."""
    pool = make_pool(job["pool"] + job["labelled"], job["features"], job["seed"])
    if job["strategy"] == "badge":
        model = make_head(job["features"], job["classes"], job["seed"])
        return gradient_embeddings(model, pool), range(0)
    rows = pool.flatten(1)
    if job["strategy"] == "probcover":
        rows = nn.functional.normalize(rows)
    return rows, range(job["labelled"])


def _distances(rows: Tensor, centres: Sequence[int], labelled: int) -> Tensor:
    near = rows[list(centres)]
    tiles = torch.split(rows[labelled:], _TILE)
    return torch.cat([torch.cdist(tile, near).amin(1) for tile in tiles])

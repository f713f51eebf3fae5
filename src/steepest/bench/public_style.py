"""The straightforward way that public code often takes, to compare with: everything at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from steepest.bench.memory import check_room
from steepest.core.seeds import generator

_FLOAT = 4


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


STRAIGHTFORWARD: dict[str, Callable[[nn.Module, Tensor, int, int], list[int]]] = {
    "core-set": core_set,
    "badge": badge,
    "core-gcn": core_gcn_graph,
}
"""By the strategy that they are compared with."""

LEFT_OUT = {"core-gcn": "the graph and one product with it, without the training"}
"""Limitations of an implementation, reported with the result."""

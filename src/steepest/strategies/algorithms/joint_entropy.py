"""Samples whose labels tell most about a network together, by greedy choice.

Given a network, labels are independent; over networks they are not. Of a set S of chosen samples,
all label configurations are followed as long as they are few, then random ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steepest.core.seeds import generator

_LIMIT_NUMBERS = 1 << 24
"""Of one temporary table of configurations by candidates and classes: 128 MB."""


def choose_jointly(
    log_p: Tensor, k: int, *, configurations: int = 10_000, seed: int = 0
) -> tuple[list[int], list[float]]:
    """Choose k samples one after the other, each for what its label adds to those before.

    The gain of a sample x is I(y_x; network | y_S) = H(y_x | y_S) − mean_t H(p_t(x)). Gains sum up
    to the mutual information of the networks and all k labels. Of equal gains the first wins.

    Takes O(k · N · M · T · C) time for M configurations, in double precision.

    Args:
        log_p: Log-probabilities of N samples by T networks, the same for all samples [N, T, C].
        k: How many; at most N.
        configurations: How many label configurations are followed at most. They are exact as long
            as C^|S| is no more than that; then they are drawn.
        seed: Decides those.

    Returns:
        Positions [k] in the order of choice, and the gain of each [k].
    """
    log_p = log_p.double()
    p = log_p.exp()
    noise = torch.special.entr(p).sum(2).mean(1)
    labels = JointLabels(log_p.shape[1], configurations, seed)
    free = torch.ones(len(p), dtype=torch.bool, device=p.device)
    positions: list[int] = []
    gains: list[float] = []
    for _ in range(k):
        gain = labels.conditional_entropy(p) - noise
        best = gain.masked_fill(~free, -torch.inf)
        # torch.argmax does not promise the first of equals on every device.
        chosen = int((best == best.max()).nonzero()[0])
        positions.append(chosen)
        gains.append(max(0.0, float(best[chosen])))
        free[chosen] = False
        labels.add(log_p[chosen])
    return positions, gains


class JointLabels:
    """The joint distribution of the labels of some samples, over T networks.

    Args:
        networks: The number of networks T.
        configurations: How many label configurations are followed at most.
        seed: Decides which, where there are more.
    """

    def __init__(self, networks: int, configurations: int, seed: int = 0) -> None:
        self._networks = networks
        self._limit = configurations
        self._seed = seed
        self._chosen: list[Tensor] = []
        # How likely each configuration is under each network [M, T], and how much it weighs [M].
        self._log_joint = torch.zeros(1, networks, dtype=torch.float64)
        self._weights = torch.ones(1, dtype=torch.float64)
        self.exact = True

    def conditional_entropy(self, p: Tensor) -> Tensor:
        """Return H(y_x | y_S) of each candidate.

        A configuration tells the networks apart: under it they have the weights P(t | y_S), and
        predict x together.

        Args:
            p: Probabilities by network [N, T, C].

        Returns:
            [N].
        """
        self._move_to(p.device)
        networks = self._log_joint.softmax(1)
        at_once = max(1, _LIMIT_NUMBERS // (len(networks) * p.shape[2]))
        found = []
        for start in range(0, len(p), at_once):
            rows = p[start : start + at_once]
            columns = rows.transpose(0, 1).flatten(1)
            predicted = (networks @ columns).reshape(len(networks), len(rows), -1)
            found.append(self._weights @ torch.special.entr(predicted).sum(2))
        return torch.cat(found)

    def entropy(self) -> float:
        """Return H(y_S); an estimate where configurations are drawn."""
        log_q = self._log_joint.logsumexp(1) - math.log(self._networks)
        return -float(self._weights @ log_q)

    def add(self, log_p: Tensor) -> None:
        """Add a sample with these log-probabilities by network [T, C]."""
        log_p = log_p.double()
        self._move_to(log_p.device)
        self._chosen.append(log_p)
        if self.exact and len(self._log_joint) * log_p.shape[1] <= self._limit:
            self._branch(log_p)
            return
        new = [len(self._chosen) - 1]
        if self.exact:
            self.exact = False
            new = list(range(len(self._chosen)))
            total = max(1, self._limit // self._networks) * self._networks
            self._log_joint = log_p.new_zeros(total, self._networks)
            self._weights = log_p.new_full((total,), 1 / total)
        for number in new:
            self._log_joint += self._draw(number)

    def _branch(self, log_p: Tensor) -> None:
        """Follow every configuration with each label of one more sample."""
        joint = (self._log_joint[:, None] + log_p.T[None]).flatten(0, 1)
        log_q = joint.logsumexp(1) - math.log(self._networks)
        # An impossible outcome carries no information about the networks.
        possible = log_q > -torch.inf
        self._log_joint, self._weights = joint[possible], log_q[possible].exp()

    def _draw(self, number: int) -> Tensor:
        """Draw a label of one sample for each configuration, by the network that it belongs to.

        Every network draws equally many, so that together they come from the mean of all.

        Returns:
            The label's log-probability under each network [M, T].
        """
        log_p = self._chosen[number]
        total = len(self._log_joint)
        source = generator(self._seed, "label configurations", number)
        uniform = torch.rand(total, generator=source, dtype=torch.float64, device="cpu")
        per_network = total // self._networks
        steps = log_p.exp().cumsum(1).repeat_interleave(per_network, dim=0)
        reached = uniform.to(log_p.device)[:, None] * steps[:, -1:]
        labels = (steps <= reached).sum(1).clamp_max(log_p.shape[1] - 1)
        return log_p.T[labels]

    def _move_to(self, device: torch.device) -> None:
        self._log_joint = self._log_joint.to(device)
        self._weights = self._weights.to(device)

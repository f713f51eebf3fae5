"""The paper's A.1 in numbers: when a step of gradient descent lessens the gradient's norm.

For a μ-strongly convex and L-smooth f, one step is ∇f(w') = (I − ηH) ∇f(w), where H is the mean
Hessian on the way, with eigenvalues between μ and L. The paper asks for η ≤ 2μ/L². The norm cannot
grow for any η ≤ 2/L, which is larger by the condition number L/μ; beyond 2/L it can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import derive, generator
from steepest.errors import InputError

Kind = Literal["plane", "balanced"]
"""Labels that follow a plane but for noise; or every point once with each label, so that the
minimum is at 0, where the Hessian of the logistic loss is as large as it can be."""

MULTIPLES = (0.01, 0.03, 0.1, 0.3, 0.9, 1.0, 1.01, 1.1, 1.3, 2.0, 4.0, 10.0)
"""Step sizes as multiples of 2/L; the paper's 2μ/L² is added to them."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class LogisticProblem:
    """Regularised logistic regression: f(w) = 1/n Σ_i log(1 + exp(−y_i x_i·w)) + ½ μ ‖w‖².

    Attributes:
        x: Points, float64 [n, d].
        y: Labels −1 and 1 [n].
        mu: μ, by which f is strongly convex.
    """

    x: Tensor
    y: Tensor
    mu: float

    @property
    def smoothness(self) -> float:
        """L = μ + λ_max(XᵀX / n) / 4, an upper bound that is reached at w = 0."""
        gram = self.x.T @ self.x / len(self.x)
        return self.mu + float(torch.linalg.eigvalsh(gram)[-1]) / 4

    def sample_gradients(self, w: Tensor) -> Tensor:
        """Return the gradient of each point's own loss, regulariser included [n, d]."""
        slope = -self.y * torch.sigmoid(-self.y * (self.x @ w))
        return slope[:, None] * self.x + self.mu * w

    def gradient(self, w: Tensor) -> Tensor:
        """Return ∇f(w) [d]."""
        return self.sample_gradients(w).mean(0)


@dataclass(frozen=True)
class StepResult:
    """Effect of one step size from many starting points.

    Attributes:
        kind: The problem.
        step: η.
        of_stated: η as a multiple of the paper's 2μ/L².
        of_largest: η as a multiple of 2/L.
        starts: How many starts.
        worst: Largest ‖∇f(w')‖ / ‖∇f(w)‖ of them.
        median: The median of the same.
        grown: At how many starts the norm of the mean gradient grew.
        samples_grown: Mean share of points whose own gradient's norm grew in the same step: what
            A.1 says nothing about.
    """

    kind: Kind
    step: float
    of_stated: float
    of_largest: float
    starts: int
    worst: float
    median: float
    grown: int
    samples_grown: float


@dataclass(frozen=True)
class DescentStudy:
    """The whole study.

    Attributes:
        mu: μ of both problems.
        smoothness: L by problem.
        stated: The paper's 2μ/L² by problem.
        largest: 2/L by problem.
        rows: One for each problem and step size.
        holds: Whether the norm never grew with a step of at most 2μ/L².
        holds_up_to_largest: Whether it never grew with a step of at most 2/L either.
        violated_beyond: Whether it grew with some step beyond 2/L.
    """

    mu: float
    smoothness: dict[str, float]
    stated: dict[str, float]
    largest: dict[str, float]
    rows: tuple[StepResult, ...]
    holds: bool
    holds_up_to_largest: bool
    violated_beyond: bool


def make_problem(
    kind: Kind, *, points: int = 200, dimensions: int = 10, mu: float = 0.1, seed: int = 0
) -> LogisticProblem:
    """Return a logistic regression on points drawn by a seed.

    Args:
        kind: How the points are labelled.
        points: n.
        dimensions: d.
        mu: μ.
        seed: Draws points, plane and noise.

    Raises:
        InputError: If a number is out of range.
    """
    if points < 2 or dimensions < 1 or not (math.isfinite(mu) and mu > 0):
        raise InputError("give 2 points or more, 1 dimension or more, and a mu above 0")
    stream = generator(seed, "descent", kind)
    scales = torch.logspace(0.5, -0.5, dimensions, dtype=torch.float64)
    x = scales * torch.randn(points, dimensions, generator=stream, dtype=torch.float64)
    if kind == "balanced":
        ones = torch.ones(points, dtype=torch.float64)
        return LogisticProblem(torch.cat([x, x]), torch.cat([ones, -ones]), mu)
    plane = torch.randn(dimensions, generator=stream, dtype=torch.float64)
    noise = torch.randn(points, generator=stream, dtype=torch.float64)
    y = torch.where(x @ plane + noise > 0, 1.0, -1.0).double()
    return LogisticProblem(x, y, mu)


def study_descent(
    *,
    points: int = 200,
    dimensions: int = 10,
    starts: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> DescentStudy:
    """Take one step of every size from many starts, on two problems.

    Starts lie in random directions at distances from 0 of 10⁻³ up to 10, and along the direction
    of largest curvature.

    Args:
        points: n of each problem.
        dimensions: d.
        starts: How many starts.
        seed: Draws problems and starts.
        progress: Updated after each step size.

    Raises:
        InputError: If a number is out of range.
    """
    if starts < 2:
        raise InputError("give 2 starts or more")
    kinds: tuple[Kind, ...] = ("plane", "balanced")
    problems = {
        kind: make_problem(kind, points=points, dimensions=dimensions, seed=seed) for kind in kinds
    }
    rows: list[StepResult] = []
    with (progress or SilentProgress()).task("descent", len(kinds)) as step:
        for kind, problem in problems.items():
            begin = _starts(problem, starts, derive(seed, "descent starts", kind))
            rows += [_take_steps(kind, problem, begin, eta) for eta in _sizes(problem)]
            step.advance()
    mu = problems["plane"].mu
    smooth: dict[str, float] = {kind: one.smoothness for kind, one in problems.items()}
    return DescentStudy(
        mu=mu,
        smoothness=smooth,
        stated={kind: 2 * mu / value**2 for kind, value in smooth.items()},
        largest={kind: 2 / value for kind, value in smooth.items()},
        rows=tuple(rows),
        holds=not any(row.grown for row in rows if row.of_stated <= 1 + _ROUNDING),
        holds_up_to_largest=not any(row.grown for row in rows if row.of_largest <= 1 + _ROUNDING),
        violated_beyond=any(row.grown for row in rows if row.of_largest > 1 + _ROUNDING),
    )


def _sizes(problem: LogisticProblem) -> list[float]:
    smooth = problem.smoothness
    return sorted({2 * problem.mu / smooth**2, *(2 * m / smooth for m in MULTIPLES)})


def _starts(problem: LogisticProblem, count: int, seed: int) -> Tensor:
    """Return starts [count, d]: half of them along the direction of largest curvature."""
    dimensions = problem.x.shape[1]
    stream = generator(seed, "directions")
    directions = torch.randn(count, dimensions, generator=stream, dtype=torch.float64)
    gram = problem.x.T @ problem.x
    directions[: count // 2] = torch.linalg.eigh(gram).eigenvectors[:, -1]
    unit = torch.nn.functional.normalize(directions, dim=1)
    half = torch.logspace(-3, 1, count - count // 2, dtype=torch.float64)
    distances = torch.cat([half[: count // 2], half])
    return distances[:, None] * unit


def _take_steps(kind: Kind, problem: LogisticProblem, starts: Tensor, eta: float) -> StepResult:
    ratios, shares = [], []
    for w in starts:
        before = problem.sample_gradients(w)
        mean = before.mean(0)
        after = problem.sample_gradients(w - eta * mean)
        ratios.append(float(after.mean(0).norm() / mean.norm()))
        shares.append(float((after.norm(dim=1) > before.norm(dim=1)).double().mean()))
    smooth = problem.smoothness
    values = torch.tensor(ratios, dtype=torch.float64)
    return StepResult(
        kind=kind,
        step=eta,
        of_stated=eta / (2 * problem.mu / smooth**2),
        of_largest=eta / (2 / smooth),
        starts=len(starts),
        worst=float(values.max()),
        median=float(values.median()),
        grown=int((values > 1 + _ROUNDING).sum()),
        samples_grown=sum(shares) / len(shares),
    )

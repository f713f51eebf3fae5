"""Analyses of models, as functions, for the paper's tables and figures."""

from __future__ import annotations

from steepest.paper.analyses.agreement import (
    agreement_grid,
    influences_along,
    order_by_distance,
)
from steepest.paper.analyses.bound_chain import chain_of_bounds
from steepest.paper.analyses.descent import study_descent
from steepest.paper.analyses.directions import find_directions
from steepest.paper.analyses.ranking import chance_overlap
from steepest.paper.analyses.sample_norms import sample_norms
from steepest.paper.analyses.schemes import compare_schemes

__all__ = [
    "agreement_grid",
    "chain_of_bounds",
    "chance_overlap",
    "compare_schemes",
    "find_directions",
    "influences_along",
    "order_by_distance",
    "sample_norms",
    "study_descent",
]

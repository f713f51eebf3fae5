"""Analyses that look at models, as functions: what the paper's tables and figures are made of."""

from __future__ import annotations

from steepest.reproduce.analyses.agreement import agreement_grid, influences_along
from steepest.reproduce.analyses.bound_chain import chain_of_bounds
from steepest.reproduce.analyses.descent import study_descent
from steepest.reproduce.analyses.directions import find_directions
from steepest.reproduce.analyses.nearest import order_by_distance
from steepest.reproduce.analyses.ranking import chance_overlap
from steepest.reproduce.analyses.sample_norms import sample_norms
from steepest.reproduce.analyses.schemes import compare_schemes

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

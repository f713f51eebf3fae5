"""Analyses that look at models, as functions: what the paper's tables and figures are made of."""

from steepest.reproduce.analyses.agreement import (
    Agreement,
    Reading,
    Targets,
    agreement_grid,
    influences_along,
)
from steepest.reproduce.analyses.bound_chain import BoundChain, bound_terms_of, chain_of_bounds
from steepest.reproduce.analyses.descent import DescentStudy, StepResult, study_descent
from steepest.reproduce.analyses.directions import Direction, find_directions
from steepest.reproduce.analyses.falls import Falls, control_groups, count_falls
from steepest.reproduce.analyses.nearest import Distance, order_by_distance
from steepest.reproduce.analyses.overlap import (
    Overlap,
    choose_by_each,
    count_overlaps,
    oracle_norms,
)
from steepest.reproduce.analyses.ranking import chance_overlap, highest
from steepest.reproduce.analyses.regimes import (
    RegimeBucket,
    RegimePoint,
    bucket_regimes,
    regime_points,
)
from steepest.reproduce.analyses.sample_norms import sample_norms
from steepest.reproduce.analyses.schemes import SchemeIdentity, compare_schemes

__all__ = [
    "Agreement",
    "BoundChain",
    "DescentStudy",
    "Direction",
    "Distance",
    "Falls",
    "Overlap",
    "Reading",
    "RegimeBucket",
    "RegimePoint",
    "SchemeIdentity",
    "StepResult",
    "Targets",
    "agreement_grid",
    "bound_terms_of",
    "bucket_regimes",
    "chain_of_bounds",
    "chance_overlap",
    "choose_by_each",
    "compare_schemes",
    "control_groups",
    "count_falls",
    "count_overlaps",
    "find_directions",
    "highest",
    "influences_along",
    "oracle_norms",
    "order_by_distance",
    "regime_points",
    "sample_norms",
    "study_descent",
]

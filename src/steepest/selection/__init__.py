"""Choosing by scores and features: functions that know no model."""

from steepest.selection.d2_sampling import d2_sample, d2_sample_products
from steepest.selection.k_centre import cover_radius, k_centre
from steepest.selection.k_centre_exact import ExactCentres, k_centre_exact
from steepest.selection.picks import Picks
from steepest.selection.ranking import rank_correlation
from steepest.selection.stochastic import perturb
from steepest.selection.top_k import random_subset, top_k

__all__ = [
    "ExactCentres",
    "Picks",
    "cover_radius",
    "d2_sample",
    "d2_sample_products",
    "k_centre",
    "k_centre_exact",
    "perturb",
    "random_subset",
    "rank_correlation",
    "top_k",
]

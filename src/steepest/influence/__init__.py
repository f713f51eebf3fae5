"""Influence functions: curvature products, inverse products, and the paper's bound terms."""

from steepest.influence.bounds import BoundTerms, bound_terms, check_bounds
from steepest.influence.cg import solve_cg
from steepest.influence.curvature import Curvature, gauss_newton, hessian
from steepest.influence.dense import dense_matrix, solve_dense
from steepest.influence.effects import Influences, influence_on_test, influences_on_test
from steepest.influence.ekfac import EKFAC, fit_ekfac
from steepest.influence.examples import Examples, ImageExamples, Source, hold_out
from steepest.influence.krylov import (
    Eigenbasis,
    KrylovSpace,
    fit_arnoldi,
    solve_arnoldi,
    span_krylov,
)
from steepest.influence.last_layer import last_layer_parameters, solve_last_layer
from steepest.influence.leave_one_out import LeaveOneOut, leave_one_out
from steepest.influence.lissa import solve_lissa
from steepest.influence.objective import Objective, summed_gradient
from steepest.influence.solution import Solution
from steepest.influence.vectors import Vector

__all__ = [
    "EKFAC",
    "BoundTerms",
    "Curvature",
    "Eigenbasis",
    "Examples",
    "ImageExamples",
    "Influences",
    "KrylovSpace",
    "LeaveOneOut",
    "Objective",
    "Solution",
    "Source",
    "Vector",
    "bound_terms",
    "check_bounds",
    "dense_matrix",
    "fit_arnoldi",
    "fit_ekfac",
    "gauss_newton",
    "hessian",
    "hold_out",
    "influence_on_test",
    "influences_on_test",
    "last_layer_parameters",
    "leave_one_out",
    "solve_arnoldi",
    "solve_cg",
    "solve_dense",
    "solve_last_layer",
    "solve_lissa",
    "span_krylov",
    "summed_gradient",
]

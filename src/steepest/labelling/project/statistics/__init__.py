"""Statistics of a project: accuracy, speed, agreement, and a forecast."""

from __future__ import annotations

from steepest.labelling.project.statistics.curve import (
    CurvePoint,
    Doubling,
    PredictionAgreement,
    agreement_with_predictions,
    binomial_interval,
    last_doubling,
    learning_curve,
)
from steepest.labelling.project.statistics.forecast import Forecast, forecast, forecast_curve
from steepest.labelling.project.statistics.people import (
    AnnotatorAgreement,
    Pace,
    PairAgreement,
    Speed,
    annotator_agreement,
    class_balance,
    speed,
)
from steepest.labelling.project.statistics.suspicious import (
    Suspicion,
    earned_certainty,
    hint_certainty,
    suspicious,
)

__all__ = [
    "AnnotatorAgreement",
    "CurvePoint",
    "Doubling",
    "Forecast",
    "Pace",
    "PairAgreement",
    "PredictionAgreement",
    "Speed",
    "Suspicion",
    "agreement_with_predictions",
    "annotator_agreement",
    "binomial_interval",
    "class_balance",
    "earned_certainty",
    "forecast",
    "forecast_curve",
    "hint_certainty",
    "last_doubling",
    "learning_curve",
    "speed",
    "suspicious",
]

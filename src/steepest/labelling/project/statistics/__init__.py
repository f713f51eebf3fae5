"""Statistics of a project: accuracy, speed, agreement, and a forecast."""

from __future__ import annotations

from steepest.labelling.project.statistics.curve import (
    CurvePoint,
    PredictionAgreement,
    agreement_with_predictions,
    binomial_interval,
    learning_curve,
)
from steepest.labelling.project.statistics.doubling import Doubling, last_doubling
from steepest.labelling.project.statistics.earned import earned_certainty, hint_certainty
from steepest.labelling.project.statistics.forecast import Forecast, forecast, forecast_curve
from steepest.labelling.project.statistics.people import (
    AnnotatorAgreement,
    PairAgreement,
    annotator_agreement,
)
from steepest.labelling.project.statistics.speed import Pace, Speed, class_balance, speed
from steepest.labelling.project.statistics.suspicious import Suspicion, suspicious

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

"""Records of runs become tables, curves and one self-contained page."""

from __future__ import annotations

from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.tables import summary_rows, text_table
from steepest.experiment.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "read_comparison", "summary_rows", "text_table", "write_report"]

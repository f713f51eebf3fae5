"""Records of runs become tables, curves and one self-contained page."""

from __future__ import annotations

from steepest.report.read import read_comparison
from steepest.report.tables import summary_rows
from steepest.report.text_table import text_table
from steepest.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "read_comparison", "summary_rows", "text_table", "write_report"]

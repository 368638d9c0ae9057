"""The report room: one self-contained HTML page per run. It reads finished facts and computes no score."""

from untrained.reports.report import outcome as outcome
from untrained.reports.report import report as report

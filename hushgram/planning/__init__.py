"""The error to expect of a collection before the first device reports, and what would reduce it."""

from __future__ import annotations

from hushgram.planning.advice import Advice, advise, differs, keeps_reports, reduction
from hushgram.planning.alternatives import Alternative, alternatives, make_plannable
from hushgram.planning.expected_error import BINS, ERRORS, Outlook, Runs, Shape, figures_of, grid, outlook
from hushgram.planning.sample_size import MOST_REPORTS, Need, Target, parse_target, reports_for, reports_needed
from hushgram.planning.snapshot_levels import Level, levels
from hushgram.planning.widths import BEST_SETS, WIDTH_SETS, best_set, width_alternatives

__all__ = [
    "BEST_SETS",
    "BINS",
    "ERRORS",
    "MOST_REPORTS",
    "WIDTH_SETS",
    "Advice",
    "Alternative",
    "Level",
    "Need",
    "Outlook",
    "Runs",
    "Shape",
    "Target",
    "advise",
    "alternatives",
    "best_set",
    "differs",
    "figures_of",
    "grid",
    "keeps_reports",
    "levels",
    "make_plannable",
    "outlook",
    "parse_target",
    "reduction",
    "reports_for",
    "reports_needed",
    "width_alternatives",
]

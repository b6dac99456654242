"""What error to expect of a collection before the first device reports, and what would lessen it."""

from __future__ import annotations

from hushgram.planning.alternatives import Advice, Alternative, advise, alternatives, differs, plannable
from hushgram.planning.levels import Level, levels
from hushgram.planning.outlook import ERRORS, Outlook, Runs, Shape, figures_of, grid, outlook
from hushgram.planning.targets import MOST_REPORTS, Need, Target, parse_target, reports_for, reports_needed

__all__ = [
    "ERRORS",
    "MOST_REPORTS",
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
    "differs",
    "figures_of",
    "grid",
    "levels",
    "outlook",
    "parse_target",
    "plannable",
    "reports_for",
    "reports_needed",
]

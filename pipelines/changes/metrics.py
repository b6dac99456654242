"""Whether the newest windows differ, as gauges for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from hushgram.changes import Changes, WindowComparison
from hushgram.transforms.sinks.prometheus import labels_of, metric_family

CHANGED = "hushgram_changed", "Whether the newest window differs from those before it, or from a week before."
PVALUE = "hushgram_change_pvalue", "Of the test that the newest window does not differ."
LEVEL = "hushgram_change_level", "The p-value at which the newest window is said to differ."
WINDOW_END = "hushgram_change_window_end_timestamp_seconds", "When the newest window that was compared ended."


class ChangeGauges:
    """The comparisons of the newest window of each collection and group."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str | None], tuple[WindowComparison, ...]] = {}

    def show(self, collection: str, changes: Changes) -> None:
        """Takes what is new, which comes in the order of time."""
        by_window = groupby(
            changes.comparisons, key=lambda comparison: (comparison.window.group, comparison.window.start)
        )
        for (group, _), comparisons in by_window:
            self._newest[collection, group] = tuple(comparisons)

    def exposition(self) -> str:
        """The text of the file."""
        from prometheus_client import generate_latest  # an extra brings it

        return generate_latest(self).decode()

    def collect(self) -> Iterator[Any]:
        newest = sorted(self._newest.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        labelled = [(labels_of(key), comparisons) for key, comparisons in newest]
        yield metric_family(
            *CHANGED, "gauge", ((labels, any(one.differs for one in comparisons)) for labels, comparisons in labelled)
        )
        for (name, text), value in ((PVALUE, "pvalue"), (LEVEL, "level")):
            samples = (
                ({**labels, "against": one.against}, getattr(one, value))
                for labels, comparisons in labelled
                for one in comparisons
            )
            yield metric_family(name, text, "gauge", samples)
        yield metric_family(
            *WINDOW_END, "gauge", ((labels, comparisons[0].window.end / 1000) for labels, comparisons in labelled)
        )

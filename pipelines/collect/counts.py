"""What the collector tells of itself: counts, and nothing of anyone. Read = accepted + refused + given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hushgram.pipelines.collect.bodies import Refused


@dataclass(eq=False)
class Counts(Collector):
    """Plain numbers, which cost a request nothing; they become metrics when somebody asks."""

    read: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    """By collection, and only what was kept."""
    refused: Counter[str] = field(default_factory=Counter)
    """By reason; where the number of reports cannot be known, one."""
    given_back: int = 0
    """Reports that were read, and could not be kept: their senders were asked to send them again."""
    answers: Counter[int] = field(default_factory=Counter)
    """By status."""
    commits: int = 0
    commit_seconds: float = 0.0
    batches: int = 0
    closed_idle: int = 0
    """Connections that were closed since they made no request, or to make room."""
    waiting: int = 0
    queue_bytes: int = 0
    connections: int = 0
    away: bool = False

    def refuse(self, refused: Refused) -> None:
        self.read += refused.counted
        self.refused[refused.reason] += refused.counted

    @property
    def summary(self) -> str:
        """
        >>> counts = Counts(read=3, accepted=Counter(commute=2))
        >>> counts.refused["too_old"] = 1
        >>> counts.summary
        '3 reports read = 2 accepted + 1 refused (too_old 1) + 0 given back'
        """
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(self.refused.items()))
        refused = f"{self.refused.total():,} refused" + (f" ({reasons})" if reasons else "")
        return (
            f"{self.read:,} reports read = {self.accepted.total():,} accepted + {refused}"
            f" + {self.given_back:,} given back"
        )

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("hushgram_collect_reports_read", "Reports that were decoded.", self.read)
        accepted = CounterMetricFamily("hushgram_collect_reports_accepted", "Reports kept.", labels=["collection"])
        for name, number in self.accepted.items():
            accepted.add_metric([name], number)
        refused = CounterMetricFamily("hushgram_collect_reports_refused", "Reports refused.", labels=["reason"])
        for reason, number in self.refused.items():
            refused.add_metric([reason], number)
        answers = CounterMetricFamily("hushgram_collect_answers", "Answers to requests.", labels=["status"])
        for status, number in self.answers.items():
            answers.add_metric([str(status)], number)
        yield from (accepted, refused, answers)
        for name, text, value in (
            ("reports_given_back", "Reports that could not be kept, and were asked for again.", self.given_back),
            ("commits", "Times that something was kept.", self.commits),
            ("commit_seconds", "Seconds spent on keeping.", self.commit_seconds),
            ("batches", "Batches kept.", self.batches),
            ("closed_idle", "Connections closed since they made no request.", self.closed_idle),
        ):
            yield CounterMetricFamily(f"hushgram_collect_{name}", text, value)
        for name, text, value in (
            ("waiting", "Reports that wait to be kept.", self.waiting),
            ("queue_bytes", "Bytes of requests that are not answered yet.", self.queue_bytes),
            ("connections", "Open connections.", self.connections),
            ("away", "Whether the sink is away.", int(self.away)),
        ):
            yield GaugeMetricFamily(f"hushgram_collect_{name}", text, value)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

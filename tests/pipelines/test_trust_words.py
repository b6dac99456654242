"""How far snapshots can be trusted, in words: the worst of all of them, and nothing that none of them knows."""

from dataclasses import replace

from hushgram.intervals import ASSUMPTIONS
from hushgram.pipelines.trust_words import trust_words
from tests.helpers.tables import MEAN, WAVE, make_snapshot

SNAPSHOT = make_snapshot(WAVE, reports=5000)


def test_the_worst_of_all_windows_counts():
    small = replace(SNAPSHOT, central_epsilon=0.7, lying_bound=0.05)
    words = dict(trust_words([small, SNAPSHOT]))
    assert words["central ε"].startswith("0.70 at most")
    assert words["1 % of liars"].endswith("up to 5.0 percentage points")
    assert words == dict(trust_words([small, replace(SNAPSHOT, central_epsilon=None, lying_bound=None)]))


def test_the_assumption_of_intervals_is_that_of_the_newest():
    for kind, words in ASSUMPTIONS.items():
        assert dict(trust_words([SNAPSHOT, replace(SNAPSHOT, intervals=kind)]))["intervals"] == words
    assert dict(trust_words([replace(SNAPSHOT, intervals="a\x1b[31mb")]))["intervals"] == "a�[31mb"


def test_what_is_not_known_is_left_out():
    nothing = dict.fromkeys(("epsilon", "mechanism", "central_epsilon", "lying_bound", "intervals"))
    assert trust_words([replace(SNAPSHOT, **nothing)]) == []
    assert [topic for topic, _ in trust_words([make_snapshot(MEAN)])] == ["ε", "central ε"]

"""A new mechanism is a class and a line: declared once, it is known to collections, files, messages and estimators."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest

from hushgram import Collection, CollectionError
from hushgram._arrays import FloatArray, IntArray
from hushgram.config import collection_keys, parse_collections
from hushgram.mechanisms import MECHANISMS, Hierarchy, Mechanism, SquareWave, Transition, mechanism_options, options_of
from hushgram.mechanisms.options import option, whole_number
from hushgram.previous import previous_keys
from hushgram.sampling import Below, Law


@dataclass(frozen=True)
class CoarseResponse(Mechanism, Transition):
    """Randomized response over a few strips of the domain."""

    name: ClassVar[str] = "coarse_response"
    estimators: ClassVar[tuple[str, ...]] = ("em",)

    strips: int = option(4, whole_number(2, 16))

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, self.strips - 1)

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @property
    def cells(self) -> int:
        return self.strips

    @property
    def _strip_of(self) -> IntArray:
        return np.arange(self.buckets) * self.strips // self.buckets

    def perturb(self, position: int, below: Below) -> int:
        return self.law.draw(int(self._strip_of[position]), below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        return self.law.draw_many(self._strip_of[positions], rng)

    def _matrix(self) -> FloatArray:
        return np.where(np.arange(self.strips)[:, None] == self._strip_of, self.law.p, self.law.q)

    def forward(self, x: FloatArray) -> FloatArray:
        return x @ self._matrix().T

    def backward(self, y: FloatArray) -> FloatArray:
        return y @ self._matrix()

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets, "strips": self.strips}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(MECHANISMS, CoarseResponse.name, CoarseResponse)


YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 2
    mechanism: coarse_response
    strips: 8
    previous: [{epsilon: 1}, {strips: 4}, {strips: null, epsilon: 3}]
"""


def test_a_new_mechanism_collects_and_estimates():
    [commute] = parse_collections(YAML).values()
    assert 0 <= commute.report(37.5) < 8
    values = 180 * np.random.default_rng(1).beta(2, 5, 40_000)
    estimate = commute.estimate(commute.tally(commute.simulate(values, seed=1)))
    truth = np.histogram(values, 8, (0, 180))[0] / values.size
    # The noisiest strip has a standard error of 0.5 %; six of them fail by chance less than once in 10⁷.
    assert np.abs(estimate.probabilities.reshape(8, 4).sum(axis=1) - truth).max() < 0.03
    assert estimate.interval("mean").low < values.mean() < estimate.interval("mean").high


def test_options_of_a_new_mechanism_are_known_everywhere():
    [commute] = parse_collections(YAML).values()
    parameters = {"name": "commute", "low": 0, "high": 180, "unit": "minutes", "buckets": 32, "epsilon": 2}
    current, *earlier = commute.revisions.values()
    assert [c.mechanism.strips for c in (current, *earlier)] == [8, 8, 4, 4]
    from_value = Collection(**parameters, mechanism=CoarseResponse(strips=8), previous=commute.previous)
    assert from_value == commute
    assert list(from_value.revisions) == list(commute.revisions)
    assert eval(repr(commute), {"Collection": Collection}) == commute
    assert "strips" in collection_keys()
    assert "strips" in previous_keys()
    with pytest.raises(CollectionError, match="strips: got 40, allowed: a whole number from 2 to 16"):
        Collection(**parameters, mechanism="coarse_response", strips=40)
    with pytest.raises(CollectionError, match="bandwidth: not an option of coarse_response, which takes strips"):
        Collection(**parameters, mechanism="coarse_response", bandwidth=0.2)
    with pytest.raises(CollectionError, match="strips: not an option of square_wave, which takes bandwidth"):
        Collection(**parameters, strips=8)


BASE = {"name": "c", "low": 0, "high": 180, "epsilon": 1.0, "buckets": 256}
CHOICES = [(kind, {}) for kind in MECHANISMS] + [
    ("square_wave", {"bandwidth": 0.2}),
    ("square_wave_continuous", {"bandwidth": 0.2, "output_buckets": 300}),
    ("general_wave", {"wave_ratio": 0.25}),
    ("randomized_response", {"bins": 16}),
    ("local_hashing", {"bins": 32, "symbols": 3}),
    ("seeded_hashing", {"symbols": 5}),
    ("hierarchy", {"branching": 2, "level_decay": 0.5}),
    ("piecewise", {"output_buckets": 512}),
]


@pytest.mark.parametrize(("name", "options"), CHOICES, ids=str)
def test_a_mechanism_by_name_and_as_a_value_are_the_same(name, options):
    from_name = Collection(**BASE, mechanism=name, **options)
    from_value = Collection(**BASE, mechanism=MECHANISMS[name](**options))
    assert from_value == from_name
    assert (from_value.revision, hash(from_value), repr(from_value)) == (
        from_name.revision,
        hash(from_name),
        repr(from_name),
    )
    assert replace(from_name, mechanism=from_value.mechanism) == from_name
    assert replace(from_value, epsilon=2.0) == Collection(**{**BASE, "epsilon": 2.0}, mechanism=name, **options)
    assert replace(from_value, buckets=64) == Collection(**{**BASE, "buckets": 64}, mechanism=name, **options)


def test_the_mechanism_takes_buckets_and_epsilon_from_the_collection():
    c = Collection(**BASE, mechanism=SquareWave(bandwidth=0.2))
    assert (c.mechanism.buckets, c.mechanism.epsilon, c.mechanism.bandwidth) == (256, 1.0, 0.2)
    assert Collection(**BASE, mechanism=SquareWave(bits=2)) == Collection(**BASE)


def test_options_may_accompany_a_mechanism_passed_as_a_value():
    c = Collection(**BASE, mechanism=SquareWave(bandwidth=0.2))
    assert replace(c, bandwidth=0.3).mechanism.bandwidth == 0.3
    assert replace(c, bandwidth=None) == Collection(**BASE)
    assert replace(c, mechanism="square_wave") == Collection(**BASE)
    assert replace(c, mechanism="hierarchy", estimator="").mechanism == Hierarchy(256, 1.0)


def test_unknown_options_of_a_collection_are_refused():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'bandwith' \(did you mean bandwidth\?\)"):
        Collection(**BASE, bandwith=0.2)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'epsilom' \(did you mean epsilon\?\)"):
        Collection(**BASE, epsilom=0.2)


def test_a_mechanism_that_is_not_registered_is_refused(monkeypatch):
    monkeypatch.delitem(MECHANISMS, CoarseResponse.name)
    with pytest.raises(CollectionError, match="mechanism: got 'CoarseResponse', allowed: square_wave, "):
        Collection(**BASE, mechanism=CoarseResponse())


def test_every_option_has_a_default_that_passes_its_own_check():
    for kind in MECHANISMS.values():
        for name, declared in options_of(kind).items():
            if declared.default is not None:
                assert declared.check(name, declared.default, 1024) == declared.default
    assert set(mechanism_options()) >= {"bandwidth", "bins", "branching", "strips"}


COMMUTE = {"name": "commute", "low": 0, "high": 180, "epsilon": 1.0}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mechanism": SquareWave(epsilon=2.0)}, "epsilon: got 2 in the mechanism, allowed: the collection's, 1"),
        ({"mechanism": SquareWave(64)}, "buckets: got 64 in the mechanism, allowed: the collection's, 1024"),
        (
            {"mechanism": SquareWave(bandwidth=0.2), "bandwidth": 0.3},
            "bandwidth: got 0.3, and 0.2 in the mechanism, allowed: one of them",
        ),
    ],
)
def test_a_mechanism_that_contradicts_its_collection_is_refused(parameters, message):
    with pytest.raises(CollectionError, match=message):
        Collection(**COMMUTE, **parameters)


def test_a_mechanism_may_repeat_what_its_collection_says():
    expected = Collection(**COMMUTE, bandwidth=0.2)
    assert Collection(**COMMUTE, mechanism=SquareWave(1024, 1.0, bandwidth=0.2), bandwidth=0.2) == expected


def test_a_changed_collection_takes_its_mechanism_along():
    collection = Collection(**COMMUTE, bandwidth=0.2)
    changed = replace(collection, epsilon=2.0, buckets=64)
    assert changed.mechanism == SquareWave(64, 2.0, bandwidth=0.2)
    assert replace(collection, bandwidth=0.3).mechanism.bandwidth == 0.3

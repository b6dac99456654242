"""The key of a window as one text: the same for every sink, and another for every window."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Collection, CollectionError
from hushgram.schemas.records import Histogram, Key, Pane

LABELS = st.one_of(st.sampled_from(["(all)", "all", "a/b", "%28all%29", "..", " ", "Ж"]), st.text(max_size=20))
KEYS = st.builds(
    Key, LABELS, st.one_of(st.none(), LABELS), *[st.integers(-(2**42), 2**45).map(lambda time: time // 500 * 500)] * 2
)


@given(KEYS, KEYS)
def test_two_keys_have_one_text_only_if_they_are_one(one, other):
    assert (one.text == other.text) == (one == other)


@given(KEYS)
def test_the_parts_of_a_text_can_be_read_back(key):
    collection, group, *_ = key.text.split("/")
    assert unquote(collection) == key.collection
    assert unquote(group) == key.group_name
    assert (group == "(all)") == (key.group is None)


def test_no_group_can_be_called_as_all_groups_together_are():
    with pytest.raises(CollectionError, match=r"groups\[1\]: got '\(all\)', allowed: any other label"):
        Collection(name="commute", low=0, high=180, epsilon=1, groups=["DE", "(all)"])


def test_records_are_written_with_their_key():
    key = Key("commute", "DE", 0, 3_600_000)
    record = Histogram(key, Pane(), {}).to_avro()
    assert record["key"] == "commute/DE/1970-01-01T00:00:00Z/1970-01-01T01:00:00Z"
    assert Histogram.from_avro(record).key == key

"""Keys as bytes: the same for equal keys on every worker, different for different ones, and never pickled."""

from apache_beam.coders import typecoders
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from hypothesis import given
from hypothesis import strategies as st

from hushgram.schemas.records import Key, Series
from hushgram.transforms.coders import KeyCoder, SeriesCoder
from hushgram.transforms.tallies import Tallies

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["", "=", "a=", "=a"])
longs = st.integers(-(2**63), 2**63 - 1)
series = st.builds(Series, names, st.none() | names)
keys = st.builds(Key, names, st.none() | names, longs, longs)


@given(st.lists(series, max_size=6), st.lists(keys, max_size=6))
def test_keys_survive_a_round_trip_and_no_two_share_their_bytes(series_list, key_list):
    for coder, values in ((SeriesCoder(), series_list), (KeyCoder(), key_list)):
        encoded = [coder.encode(value) for value in values]
        assert [coder.decode(data) for data in encoded] == values
        assert len(set(encoded)) == len(set(values))


def test_beam_takes_the_coders_for_elements_with_keys_and_may_group_by_them():
    for kind, coder in ((Series, SeriesCoder), (Key, KeyCoder)):
        element = typecoders.registry.get_coder(convert_to_beam_type(tuple[kind, Tallies]))
        assert isinstance(element.key_coder(), coder)
        assert element.key_coder().is_deterministic()

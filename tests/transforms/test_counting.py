"""Which reports are counted, and how: against a loop over single reports, and under every way of cutting them."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from devtools import fuzz
from hushgram import Collection, Windows
from hushgram.schemas.columns import Labels, ReportColumns
from hushgram.schemas.records import Events
from hushgram.transforms.collection_index import EARLIEST, CollectionIndex, cell_width
from hushgram.transforms.counting import count_by_key, tally
from hushgram.transforms.deduplication import first_of_each_id
from hushgram.transforms.judging import ORDER, accept
from hushgram.transforms.uploads import Uploads, pieces, unpack

HOUR = 3_600_000
NOW = 1_767_225_600_000
SLIDING = Windows(size=3 * HOUR, every=2 * HOUR)
COLLECTIONS = [
    Collection(name="commute", low=0, high=180, buckets=16, epsilon=1, groups=["DE", "FR"], previous=[{"epsilon": 2}]),
    Collection(name="age", low=0, high=7, integer=True, buckets=8, epsilon=2, windows=SLIDING),
    Collection(name="seeded", low=0, high=1, buckets=8, epsilon=1, mechanism="seeded_hashing"),
    Collection(name="wide", low=0, high=1, buckets=1024, epsilon=1, mechanism="hierarchy"),
]  # fmt: skip
INDEX = CollectionIndex.of(COLLECTIONS)
REVISIONS = {c.name: list(c.revisions) for c in COLLECTIONS}


def make_columns(rows, packed=False):
    """Rows (collection, revision, group, event time, id, cell or bytes) as columns."""

    def labels(values):
        names = tuple(dict.fromkeys(values))
        return Labels(names, np.array([names.index(value) for value in values], dtype=np.int64))

    ids = np.array([divmod(row[4] or 0, 2**64) for row in rows], dtype=np.uint64).reshape(-1, 2)
    return ReportColumns(
        collection=labels([row[0] for row in rows]),
        revision=np.array([int(row[1], 16) for row in rows], dtype=np.uint64),
        group=labels([row[2] for row in rows]),
        event_time=np.array([row[3] for row in rows], dtype=np.int64),
        has_id=np.array([row[4] is not None for row in rows], dtype=bool),
        id=ids,
        cells=None if packed else np.array([row[5] for row in rows], dtype=np.int64),
        packed=tuple(row[5] for row in rows) if packed else None,
    )


def find_reason(row):
    """The reason for which one report is refused, by the rules as documented."""
    name, revision, group, event_time, _, cell = row
    collection = {c.name: c for c in COLLECTIONS}.get(name)
    if collection is None:
        return "unknown_collection"
    if revision not in collection.revisions:
        return "unknown_revision"
    if not 0 <= cell < collection.revisions[revision].mechanism.cells:
        return "cell_out_of_range"
    if group is not None and group not in collection.groups:
        return "unknown_group"
    if event_time > NOW + 300_000:
        return "from_the_future"
    return "too_old" if event_time < EARLIEST else None


names = st.sampled_from([*REVISIONS, "nobody", ""])
revisions = st.sampled_from([r for known in REVISIONS.values() for r in known] + ["00" * 8, "ff" * 8])
times = st.one_of(
    st.integers(NOW - 9 * HOUR, NOW),
    st.sampled_from([NOW + 300_000, NOW + 300_001, 0, -1, EARLIEST, EARLIEST - 1, -(2**63), 2**63 - 1]),
)
cells = st.one_of(st.integers(0, 20), st.sampled_from([-1, 2**40, 2**63 - 1, -(2**63)]))
groups = st.sampled_from([None, "DE", "FR", "XX"])
ids = st.none() | st.integers(0, 2**128 - 1)
honest = st.sampled_from([(c.name, r) for c in COLLECTIONS for r in c.revisions])
rows = st.one_of(
    st.tuples(names, revisions, groups, times, ids, cells),
    st.builds(lambda nr, when, cell: (*nr, None, when, None, cell), honest, times, st.integers(0, 7)),
)


def compute_partials(uploads):
    """The partial tallies of uploads, with names for their parts: each is of one revision."""
    for slice_, tallies in tally(INDEX, uploads):
        [(revision, (reports, counts))] = tallies.parts.items()
        yield SimpleNamespace(
            **slice_._asdict(), revision=revision, reports=reports, counts=counts, events=tallies.events
        )


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, max_size=25))
def test_reports_in_columns_are_judged_and_counted_as_one_by_one(reports):
    uploads, refused = accept(INDEX, make_columns(reports), NOW)
    reasons = Counter(find_reason(row) for row in reports)
    assert {refusal.reason: refusal.reports for refusal in refused} == {r: n for r, n in reasons.items() if r}
    assert uploads.reports + sum(refusal.reports for refusal in refused) == len(reports)
    expected, times_of = {}, {}
    for row in reports:
        if find_reason(row) is None:
            collection = COLLECTIONS[INDEX.places[row[0]]]
            start = row[3] // collection.windows.slice * collection.windows.slice
            expected.setdefault((row[0], row[1], row[2], start), []).append(row[5])
            times_of.setdefault((row[0], row[1], row[2], start), []).append(row[3])
    partials_by_key = {
        (partial.collection, partial.revision, partial.group, partial.start): partial
        for partial in compute_partials(uploads)
    }
    assert set(partials_by_key) == set(expected)
    for key, cells_of_key in expected.items():
        revision = COLLECTIONS[INDEX.places[key[0]]].revisions[key[1]]
        assert partials_by_key[key].counts.tolist() == revision.tally(cells_of_key).tolist()
        assert partials_by_key[key].reports == len(cells_of_key)
        assert partials_by_key[key].events == Events(min(times_of[key]), max(times_of[key]), len(cells_of_key))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_tallies_do_not_depend_on_how_reports_are_cut_into_blocks(data):
    reports = data.draw(st.lists(rows, max_size=25))
    cut = data.draw(st.integers(0, len(reports)))

    def sum_partials(*parts):
        sums = {}
        for part in parts:
            for p in compute_partials(accept(INDEX, make_columns(part), NOW)[0]):
                key = (p.collection, p.revision, p.group, p.start)
                counts, events = sums.get(key, (0, p.events))
                sums[key] = counts + p.counts, events | p.events if key in sums else events
        return {key: (counts.tolist(), events) for key, (counts, events) in sums.items()}

    assert sum_partials(reports) == sum_partials(reports[:cut], reports[cut:])


def pack_cells(name, revision, values):
    alphabet = COLLECTIONS[INDEX.places[name]].revisions[revision].mechanism.cells
    return np.array(values, dtype=f"<u{cell_width(alphabet)}").tobytes()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(honest, times, st.lists(st.integers(0, 15), max_size=6)), max_size=10))
def test_a_batch_counts_as_its_reports_do(batches):
    packed = [(*nr, None, event_time, None, pack_cells(*nr, values)) for nr, event_time, values in batches]
    single = [(*nr, None, event_time, None, value) for nr, event_time, values in batches for value in values]
    batched, refused_batched = accept(INDEX, make_columns(packed, packed=True), NOW)
    # One bad cell refuses its whole batch, so only honest ones are compared here.
    reasons = [
        find_reason((*nr, None, event_time, None, value)) for nr, event_time, values in batches for value in values
    ]
    if not any(reason == "cell_out_of_range" for reason in reasons):
        one_by_one, refused_single = accept(INDEX, make_columns(single), NOW)
        counts = [
            {(p.collection, p.revision, p.start): p.counts.tolist() for p in compute_partials(uploads)}
            for uploads in (batched, one_by_one)
        ]
        assert counts[0] == counts[1]
        spans = [
            [(p.events.first, p.events.last) for p in compute_partials(uploads)] for uploads in (batched, one_by_one)
        ]
        assert spans[0] == spans[1]
        accepted = [
            values
            for nr, event_time, values in batches
            if values and find_reason((*nr, None, event_time, None, 0)) is None
        ]
        assert sum(p.events.uploads for p in compute_partials(batched)) == len(accepted)
        refused_counts = [sum(refusal.reports for refusal in refused) for refused in (refused_batched, refused_single)]
        assert refused_counts[0] == refused_counts[1]


def test_invalid_batches_are_refused_as_a_whole():
    commute, seeded = REVISIONS["commute"][0], REVISIONS["seeded"][0]
    rows = [
        ("commute", commute, None, NOW, None, bytes([1, 2, 3])),
        ("commute", commute, None, NOW, None, bytes([1, 2, 255])),
        ("seeded", seeded, None, NOW, None, b"1234567"),
        ("nobody", commute, None, NOW, None, b"12"),
        ("commute", commute, None, NOW, None, b""),
        ("seeded", seeded, None, NOW, None, b"\xff" * 8),
    ]
    uploads, refused = accept(INDEX, make_columns(rows, packed=True), NOW)
    assert uploads.reports == 3
    assert len(uploads) == 2
    assert {r.reason: r.reports for r in refused} == {
        "cell_out_of_range": 4,
        "ragged_cells": None,
        "unknown_collection": None,
    }
    assert all("\n" not in r.detail for r in refused)


def test_ids_stay_with_their_uploads():
    commute = REVISIONS["commute"][0]
    rows = [("commute", commute, "DE", NOW, 7 * 2**64 + i if i % 2 else None, i) for i in range(8)]
    rows[3] = ("commute", commute, "DE", NOW, 9, 10**6)
    uploads, _ = accept(INDEX, make_columns(rows), NOW)
    assert uploads.has_id.tolist() == [False, True, False, False, True, False, True]
    assert uploads.id[uploads.has_id].tolist() == [[7, 1], [7, 5], [7, 7]]
    assert uploads.take(uploads.has_id).cells.tolist() == [1, 5, 7]


def test_the_details_of_refusals_name_the_value_and_the_allowed_range():
    commute = REVISIONS["commute"][0]
    rows = [("commute", commute, "XX", NOW, None, 1)] * 3 + [("commute", commute, None, NOW, None, 99)]
    details = {r.reason: r.detail for r in accept(INDEX, make_columns(rows), NOW)[1]}
    assert details["unknown_group"] == "group 'XX' of 'commute', and 2 more"
    cells = COLLECTIONS[0].mechanism.cells
    assert details["cell_out_of_range"] == f"cell 99 of 'commute', which has 0 to {cells - 1}"
    assert set(details) < set(ORDER)


@pytest.mark.parametrize("count", [0, 1])
def test_zero_or_one_report_is_counted(count):
    rows = [("age", REVISIONS["age"][0], None, NOW, None, 3)] * count
    uploads, refused = accept(INDEX, make_columns(rows), NOW)
    assert (len(uploads), refused, len(list(tally(INDEX, uploads)))) == (count, [], count)


@settings(max_examples=200, deadline=None)
@example([(0, 0, []), (1, 0, []), (0, 0, [0, 1])])  # as many cells as uploads, but not one each
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.lists(st.integers(0, 7), max_size=4)), max_size=20))
def test_each_id_counts_once_whichever_shard_it_goes_to(draws):
    revision = REVISIONS["age"][0]
    packed = [
        (
            "age",
            revision,
            None,
            NOW - hour * HOUR,
            (number * 7919) % 5 * 2**64 + number,
            pack_cells("age", revision, cells),
        )
        for number, hour, cells in draws
    ]
    uploads, _ = accept(INDEX, make_columns(packed, packed=True), NOW)
    by_shard = {}
    for part in (uploads.between(0, len(uploads) // 2), uploads.between(len(uploads) // 2, len(uploads))):
        for shard, piece in pieces([part], NOW, count=3):
            by_shard.setdefault(shard, []).append(unpack(piece)[0])
    unique = []
    for parts in by_shard.values():
        masks = first_of_each_id([part.id for part in parts])
        unique += [(part.take(is_first), part.take(~is_first)) for part, is_first in zip(parts, masks, strict=True)]
    unique_ids = [tuple(row) for first, _ in unique for row in first.id.tolist()]
    assert sorted(unique_ids) == sorted({divmod(row[4], 2**64) for row in packed})
    assert sum(len(first) + len(rest) for first, rest in unique) == len(packed)
    assert sum(first.reports + rest.reports for first, rest in unique) == uploads.reports
    # The cells stay with their upload.
    by_id = {}
    for row in packed:
        by_id.setdefault(divmod(row[4], 2**64), []).append(row[5])
    for first, rest in unique:
        for part in (first, rest):
            for index in range(len(part)):
                upload = part.between(index, index + 1)
                assert pack_cells("age", revision, upload.cells) in by_id[tuple(upload.id[0].tolist())]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(EARLIEST, NOW),
            st.integers(-1, 300),
            st.integers(0, 2**64 - 1),
            st.lists(st.integers(0, 2**63 - 1), max_size=3),
        ),
        max_size=20,
    )
)
def test_pieces_hold_every_number_however_wide(rows):
    times, groups, ids, cells = ([row[column] for row in rows] for column in range(4))
    zeros = np.zeros(len(rows), dtype=np.int64)
    uploads = Uploads(
        collection=zeros,
        revision=zeros,
        group=np.array(groups, dtype=np.int64),
        event_time=np.array(times, dtype=np.int64),
        has_id=np.ones(len(rows), dtype=bool),
        id=np.array([(7, item) for item in ids], dtype=np.uint64).reshape(-1, 2),
        sizes=np.array([len(part) for part in cells], dtype=np.int64),
        cells=np.array([cell for part in cells for cell in part], dtype=np.int64),
    )
    restored = []
    for shard, piece in pieces([uploads], NOW, count=4):
        part, received = unpack(piece)
        assert received == NOW
        assert (part.id[:, 1] % np.uint64(4) == shard).all()
        for index in range(len(part)):
            item = part.between(index, index + 1)
            restored.append((item.event_time[0], item.group[0], item.id[0, 1], item.cells.tolist()))
    assert sorted(restored) == sorted(rows)


@pytest.mark.parametrize(
    "parts",
    [[([2, 0], 1)], [([1, 1, 1], 2)], [([-1, 2], 1)], [([2], 1), ([1], 2)]],
    ids=["too few", "too many", "negative", "of another part"],
)
def test_sizes_that_are_not_those_of_the_cells_are_refused(parts):
    """`parts` are sizes, and a number of cells."""

    def make(sizes, cells):
        zeros = np.zeros(len(sizes), dtype=np.int64)
        ids = np.zeros((len(sizes), 2), dtype=np.uint64)
        return Uploads(zeros, zeros, zeros, zeros, zeros == 0, ids, np.array(sizes), np.zeros(cells, dtype=np.int64))

    with pytest.raises(ValueError, match="sizes that are not those of the cells"):
        list(pieces([make(*part) for part in parts], NOW))


@pytest.mark.parametrize(("key", "size", "cell"), [(-1, 1, 0), (2, 1, 0), (0, 2, 0), (0, -1, 0), (0, 1, 3), (0, 1, -1)])
def test_nothing_out_of_range_is_counted(key, size, cell):
    zeros = np.zeros(1, dtype=np.int64)
    uploads = Uploads(zeros, zeros, zeros, zeros, zeros == 1, np.zeros((1, 2), np.uint64), zeros + size, zeros + cell)
    with pytest.raises(ValueError, match="upload 0 has a key, a size or a cell that is out of range"):
        count_by_key(zeros + key, uploads, keys=2, width=3)


def test_the_fuzzer_finds_nothing_in_a_second():
    """`python -m devtools.fuzz` goes on for minutes."""
    assert int(fuzz.fuzz_uploads(1, start=7).split()[0]) >= 1000

"""Packing: nothing is lost, nothing is doubled, every batch is of one kind, and the order of arrival is gone."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram.pipelines.collect import packing
from hushgram.pipelines.collect.bodies import StricterIndex, judge_columns
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.columns import from_records
from hushgram.transforms.uploads import Uploads
from tests.helpers.collectors import COLLECTIONS, HOUR, SLICES, count_reports

INDEX = StricterIndex.of(COLLECTIONS.values())
NOW = 500_000 * HOUR


@st.composite
def uploads(draw):
    """An upload of one or more reports, as its record; small pools of values, so that many are alike."""
    name = draw(st.sampled_from(["commute", "age"]))
    collection = COLLECTIONS[name]
    revision = draw(st.sampled_from(list(collection.revisions)))
    limit = collection.revisions[revision].mechanism.cells
    return {
        "collection": name,
        "revision": bytes.fromhex(revision),
        "cells": draw(st.lists(st.integers(0, limit - 1), max_size=4)),
        "event_time": NOW - draw(st.integers(0, 3 * HOUR)),
        "group": draw(st.sampled_from([None, *collection.groups])),
        "id": draw(st.none() | st.binary(min_size=16, max_size=16)),
    }


def judged(rows):
    """Rows of several cells as batches, the others as reports."""
    singles = [{**row, "cell": row["cells"][0]} for row in rows if len(row["cells"]) == 1]
    batches = []
    for row in rows:
        if len(row["cells"]) != 1:
            cells = COLLECTIONS[row["collection"]].revisions[row["revision"].hex()].mechanism.cells
            width = packing.cell_width(cells)
            batches.append({**row, "cells": np.array(row["cells"], dtype=f"<u{width}").tobytes(), "ids": None})
    found = []
    for definition, records in ((REPORT, singles), (REPORT_BATCH, batches)):
        judgement = judge_columns(INDEX, from_records(definition, records), NOW)
        assert (judgement.reason < 0).all()
        found.append(judgement.accepted)
    return Uploads.together(found)


@given(st.lists(uploads(), max_size=40), st.integers(1, 9), st.integers(0, 2**32))
def test_every_report_is_in_exactly_one_batch_with_its_time_cut(rows, largest, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "LARGEST_BATCH", largest)
        batches = packing.pack(INDEX, judged(rows), np.random.default_rng(seed).permutation)
    expected = Counter()
    for row in rows:
        length = SLICES[row["collection"]]
        for cell in row["cells"]:
            start = row["event_time"] // length * length
            expected[row["collection"], row["revision"], row["group"], start, cell, row["id"]] += 1
    assert count_reports(batches) == expected
    # Uploads with one id for several reports stay together, and alone; all others are in as few batches as can be.
    whole = [row for row in rows if row["id"] is not None and len(row["cells"]) > 1]
    assert Counter(batch["id"] for batch in batches if batch["id"] is not None) == Counter(row["id"] for row in whole)
    mixed, sizes = Counter(), Counter()
    for (*kind, _, own), number in expected.items():
        mixed[*kind, own is not None] += number
    for row in whole:
        length = SLICES[row["collection"]]
        start = row["event_time"] // length * length
        mixed[row["collection"], row["revision"], row["group"], start, True] -= len(row["cells"])
    for batch in batches:
        if batch["id"] is None:
            kind = batch["collection"], batch["revision"], batch["group"], batch["event_time"]
            sizes[*kind, batch["ids"] is not None] += 1
            width = 2 if batch["collection"] == "age" else 1
            assert 0 < len(batch["cells"]) // width <= largest
    assert sizes == Counter({kind: -(-number // largest) for kind, number in (+mixed).items()})


def test_every_order_within_a_batch_is_as_likely_as_any_other_by_the_systems_randomness(monkeypatch):
    """Of 6000 shuffles each of the six orders comes 1000 times, ± 29; by chance one is off by 145 once in 300,000."""
    rows = [
        {
            "collection": "commute",
            "revision": bytes.fromhex(COLLECTIONS["commute"].revision),
            "cells": [cell],
            "event_time": NOW,
            "group": None,
            "id": bytes([cell] * 16),
        }
        for cell in (1, 2, 3)
    ]
    reports, system = judged(rows), np.random.default_rng(5)
    monkeypatch.setattr(packing.secrets, "token_bytes", system.bytes)
    seen = Counter()
    for _ in range(6000):
        [batch] = packing.pack(INDEX, reports)
        assert batch["ids"] == b"".join(bytes([cell] * 16) for cell in batch["cells"])  # an id stays with its cell
        seen[tuple(batch["cells"])] += 1
    assert set(seen) == set(permutations((1, 2, 3)))
    assert max(abs(number - 1000) for number in seen.values()) < 145


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30), st.integers(1, 2**20))
def test_codes_are_equal_where_values_are(values, step):
    column = np.array(values, dtype=np.int64) * step
    codes, count = packing._codes(column)
    assert 0 <= codes.min() <= codes.max() < count
    assert len(set(zip(codes.tolist(), values, strict=True))) == len(set(values)) == len(set(codes.tolist()))


def test_many_kinds_do_not_overflow():
    """Five columns with a million values each would, as one number."""
    rng = np.random.default_rng(1)
    wide = [rng.integers(-(2**62), 2**62, 1000) for _ in range(3)]
    empty = np.zeros(1000, dtype=np.int64)
    reports = Uploads(*wide, empty, empty.astype(bool), np.zeros((1000, 2), dtype=np.uint64), empty + 1, empty)
    assert len(set(packing._kinds(reports, reports.has_id).tolist())) == 1000


def test_the_work_for_batches_with_an_id_grows_no_faster_than_their_number(monkeypatch):
    """Passes over all rows: as many for a thousand batches as for ten."""
    row = {
        "collection": "commute",
        "revision": bytes.fromhex(COLLECTIONS["commute"].revision),
        "cells": [1, 2],
        "event_time": NOW,
        "group": None,
    }
    passes, repeat, cumsum = Counter(), np.repeat, np.cumsum
    for number in (10, 1000):
        uploads = judged([{**row, "id": place.to_bytes(16, "big")} for place in range(number)])

        def note(function, number=number):
            def noted(array, *rest, **options):
                passes[number] += 1
                return function(array, *rest, **options)

            return noted

        with monkeypatch.context() as patch:
            patch.setattr(np, "repeat", note(repeat))
            patch.setattr(np, "cumsum", note(cumsum))
            assert len(packing.pack(INDEX, uploads)) == number
    assert passes[1000] == passes[10]

"""The arithmetic: a load, its sizes and the costs in; the row of the table, and where the limits lie, out."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.sizing.costs import Costs
from benchmarks.sizing.load import DAY, HELD, Load
from benchmarks.sizing.sizes import Sizes
from benchmarks.sizing.spread import spread
from hushgram.transforms.uploads import SHARDS


@dataclass(frozen=True)
class SizingRow:
    """The costs of a load. Seconds are those of the busiest hour, bytes are bytes, a core is always busy."""

    reports_a_day: float
    messages_a_day: float
    messages_a_second: float
    message_bytes: float
    record_bytes: float
    bytes_a_second: float
    kept_a_day: float
    source_cores: float
    ids_cores: float
    ids_state: float
    shard_state: float
    ids_memory: float
    shuffled_elements: float
    shuffled_bytes: float
    merge_cores: float
    state_a_key: float
    keys_alive: float
    tallies_state: float
    waiting_state: float
    panes_without_growth: float
    late_share_without_growth: float
    panes_a_day: float
    late_share_of_panes: float
    estimates_a_second: float
    estimate_cores_alone: float
    estimate_cores_together: float
    files_a_day: float
    commits_a_day: float
    written_a_day: float

    @property
    def cores(self) -> float:
        """All of them, if every window is estimated alone."""
        return self.source_cores + self.ids_cores + self.merge_cores + self.estimate_cores_alone


def build_row(load: Load, sizes: Sizes, costs: Costs) -> SizingRow:
    panes_a_day, without_growth = load.panes_a_day(), load.panes_a_day(growth=0.0)
    panes, added = panes_a_day / DAY, without_growth / DAY  # what is held back is added up, too
    _, snapshot, histogram = costs.pane_files[0]
    merged = load.all_partials * load.windows_of_slice
    # Where estimates have state, panes are shuffled once more on the way to them, and as wholes.
    again = panes if load.collection.has_warm_starts else 0.0
    whole = (sizes.state_of_all + load.groups * sizes.state_of_group) / load.keys
    return SizingRow(
        reports_a_day=load.reports_a_day,
        messages_a_day=load.messages_a_day,
        messages_a_second=load.messages,
        message_bytes=sizes.message,
        record_bytes=sizes.record,
        bytes_a_second=load.messages * sizes.record,
        kept_a_day=load.messages_a_day * sizes.record,
        source_cores=load.calls * costs.call + load.messages * costs.message,
        ids_cores=load.pieces * costs.piece,
        ids_state=load.ids_alive * sizes.id_kept,
        shard_state=load.ids_alive * sizes.id_kept / SHARDS,
        ids_memory=load.ids_alive * sizes.id_in_memory,
        shuffled_elements=load.all_partials + load.pieces + added + 2 * panes + again,
        shuffled_bytes=load.all_partials * sizes.partial
        + load.pieces * sizes.piece
        + added * sizes.pane
        + panes * (snapshot + histogram)
        + again * whole,
        merge_cores=merged * costs.merge + panes * costs.pane,
        state_a_key=sizes.state_of_all,
        keys_alive=load.windows_alive * load.keys,
        tallies_state=load.windows_alive * (sizes.state_of_all + load.groups * sizes.state_of_group),
        waiting_state=max(load.pause, load.cycle) * merged * sizes.partial,
        panes_without_growth=without_growth,
        late_share_without_growth=load.late_panes_a_day(growth=0.0) / without_growth,
        panes_a_day=panes_a_day,
        late_share_of_panes=load.late_panes_a_day() / panes_a_day,
        estimates_a_second=panes,
        estimate_cores_alone=panes * costs.estimate_alone,
        estimate_cores_together=panes * costs.estimate_together,
        files_a_day=load.files_left(snapshot) + load.files_left(histogram),
        commits_a_day=load.commits_a_day,
        written_a_day=panes_a_day * (snapshot + histogram),
    )


@dataclass(frozen=True)
class Limit:
    """A resource that cannot be shared out: how much there is of it, how much the load needs, and the remedy."""

    what: str
    unit: str
    most: float
    asked: float
    then: str
    with_devices: bool = True
    """Whether twice the devices ask twice as much."""

    @property
    def used(self) -> float:
        return self.asked / self.most


def limits(load: Load, sizes: Sizes, costs: Costs, worker_memory: float) -> list[Limit]:
    """Where one partition, one slot, one key, one shard or one worker ends; a worker is one core of Python."""
    share = spread(load.partitions, load.slots).busiest
    interval = load.pause or load.windows.size / 1000
    results = [
        Limit(
            "one partition",
            "messages/s",
            1 / costs.message,
            load.messages / load.partitions,
            "more partitions; more reports in a message",
        ),
        Limit(
            f"the busiest of {load.slots} slots, which has {share:.1f} of {load.partitions} partitions",
            "messages/s",
            1 / costs.message,
            share * load.messages / load.partitions,
            "more slots, and four to eight partitions for each",
        ),
        Limit(
            "a round of calls in that slot, one after the other",
            "s",
            interval,
            share * HELD,
            "fewer partitions for a slot; a lower `fetch.wait.max.ms` in the Kafka properties; a longer `early`",
            with_devices=False,
        ),
        Limit(
            "one key, all groups together: one worker merges its partials",
            "partials/s",
            1 / costs.merge,
            load.windows_of_slice * (load.partials(False, False) + load.partials(True, False)),
            "fewer partitions; windows that overlap less; in batch `--fanout`",
            with_devices=False,
        ),
        Limit(
            f"estimates of {load.slots} workers, each window alone",
            f"panes in {interval:g} s",
            load.slots * interval / costs.estimate_alone,
            interval * load.panes_a_day() / DAY,
            "a longer `early`; a shorter `max_age`; fewer groups; fewer buckets; more slots",
            with_devices=False,
        ),
    ]
    if load.ids:
        shards = spread(SHARDS, load.slots).busiest / SHARDS
        results += [
            Limit(
                "one shard of ids",
                "ids/s",
                load.ids_in_piece / costs.piece,
                load.messages / SHARDS,
                "more reports in a message: an id is for a message",
            ),
            Limit(
                f"ids in the worker with most of the {SHARDS} shards",
                "bytes of memory",
                worker_memory,
                shards * load.ids_alive * sizes.id_in_memory,
                f"more reports in a message; a shorter `max_age`; more slots, up to {SHARDS}",
            ),
        ]
    return results


def devices_at(load: Load, limit: Limit) -> float | None:
    """The number of devices a day that reaches a limit; None where one load does not determine it."""
    return load.devices / limit.used if limit.with_devices and limit.used else None

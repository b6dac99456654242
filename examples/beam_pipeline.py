"""Reports of a thousand simulated commutes, aggregated in this process: `python examples/beam_pipeline.py`."""

import apache_beam as beam
import numpy as np

import hushgram
import hushgram.beam as hg

commute = hushgram.Collection(name="commute", low=0, high=180, unit="minutes", epsilon=1.0)
cells = commute.simulate(np.random.default_rng(7).normal(60, 15, 1000), seed=7)
record = {"collection": "commute", "revision": commute.revision, "event_time": 1_767_225_600_000}

if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        reports = pipeline | beam.Create([{**record, "cell": cell} for cell in cells])
        snapshots, _, _ = reports | hg.AggregateReports([commute])
        snapshots | hg.WriteSnapshots("results")
    for snapshot in hg.read_snapshots("results"):
        print(f"{snapshot.reports} reports, mean {snapshot.mean:.0f} {snapshot.unit}")

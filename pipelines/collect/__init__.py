"""The collector: takes reports over HTTP, packs them, keeps them, and only then says so; it keeps nothing about people.

The way of a report: `connections` (who may speak, and for how long) → `app` (what is asked) → `bodies` (bytes to
reports, judged) → `intake` (what waits, and for what) → `packing` (many reports to few batches) → `file_sink` or
`kafka_sink`.
"""

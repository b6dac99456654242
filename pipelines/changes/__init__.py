"""`hushgram changes`: which windows differ from those before them.

`definitions` finds the collection behind results, `verdicts` judges its windows, `text` puts them into words, `follow`
goes on as results come, and `metrics` shows the newest to Prometheus.
"""

"""The page of `hushgram view`: what snapshots say, for a person who never saw the pipeline.

`data` prepares snapshots for the page, `catalogue` orders them, `result_index` reads a directory, `standalone` makes
one file of it all, `server` shows it live; `static` is what the browser gets.
"""

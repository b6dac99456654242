"""The page of `hushgram view`: what snapshots say, for a person who never saw the pipeline.

`data` makes values of a snapshot, `catalogue` puts them in order, `library` reads a directory, `written` makes one file
of it all, `server` shows it live; `static` is what the browser gets.
"""

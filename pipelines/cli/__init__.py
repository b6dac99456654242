"""The `hushgram` command: its arguments, its signals, and what it says in the terminal."""

"""Every figure in the documents comes from a command in here."""

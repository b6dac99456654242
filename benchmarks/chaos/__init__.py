"""Random faults against a real stream on this machine, with the tallies, letters and tables checked after each."""

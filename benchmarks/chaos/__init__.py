"""Random faults against a real stream on this machine, with tallies, dead letters and tables checked after each."""

"""hushgram beside other libraries of local differential privacy, on the same values: `python -m benchmarks.peers`."""

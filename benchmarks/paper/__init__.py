"""The paper's experiments, reproduced: `python -m benchmarks.paper [--full]` writes `docs/paper.md` and its figures."""

"""Dataflow's flex templates of `hushgram aggregate` and `hushgram stream`."""

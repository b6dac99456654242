"""Beam, thin: sources, transforms and sinks over pure functions that need no pipeline."""

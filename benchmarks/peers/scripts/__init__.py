"""One script for each peer. They run in the peers' own environment, where hushgram is not."""

"""Where the pipelines run."""

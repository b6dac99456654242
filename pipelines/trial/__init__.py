"""`hushgram try`: a person's own numbers through simulated devices, the pipeline and the page."""

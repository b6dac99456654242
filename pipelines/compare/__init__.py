"""`hushgram compare`: two or more groups, windows or folders of results beside one another."""

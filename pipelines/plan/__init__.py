"""`hushgram plan`: what error to expect of a collection, as text and as a figure."""

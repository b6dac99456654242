"""`hushgram conform`: whether a client, in whatever language, keeps the law of its reports."""

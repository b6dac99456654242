"""`hushgram simulate`: reports of devices whose values are known, as files or live to Kafka."""

"""Dead letters of a topic, sent again."""

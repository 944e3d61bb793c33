"""Rules about the words of a definition."""

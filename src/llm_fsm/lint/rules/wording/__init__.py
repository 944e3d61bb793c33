"""Rules about the texts of a definition."""

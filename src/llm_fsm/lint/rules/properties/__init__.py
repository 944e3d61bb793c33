"""Rules about the properties that an author declares."""

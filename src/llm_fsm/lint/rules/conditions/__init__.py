"""Rules about conditions and decisions."""

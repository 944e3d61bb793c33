"""Graph."""

"""Definition."""

"""File."""

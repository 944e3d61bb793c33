"""Reply."""

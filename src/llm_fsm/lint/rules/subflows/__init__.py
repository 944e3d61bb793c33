"""Rules about definitions that call others."""

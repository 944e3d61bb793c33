"""Rules about keys: their writers and readers."""

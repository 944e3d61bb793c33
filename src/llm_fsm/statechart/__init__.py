"""State machines in Python; see the modules."""

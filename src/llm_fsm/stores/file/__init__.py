"""Conversations as files. `store.py` is the store, and `folder.py` reads and writes the files."""

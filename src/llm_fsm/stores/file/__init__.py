"""Conversations as files. `store.py` is the store, `folder.py` the files and how they are written."""

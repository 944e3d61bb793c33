"""Conversations in MongoDB. `store.py` is the store, `documents.py` the collections, `errors.py` the faults."""

"""Conversations in MongoDB. `store.py` is the store, `documents.py` the collections, `errors.py`
the faults.
"""

from llm_fsm.stores.mongodb.store import MongoDBStore

__all__ = ["MongoDBStore"]

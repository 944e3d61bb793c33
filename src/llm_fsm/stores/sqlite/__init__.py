"""Conversations in one SQLite file. `store.py` is the store, `statements.py` has the SQL,
`schema.py` the tables.

`connection.py` serves batches of requests on one connection. `errors.py` is the table of faults.
"""

from llm_fsm.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]

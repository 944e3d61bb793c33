"""Conversations in PostgreSQL. `store.py` is the store, `statements.py` has the SQL, `schema.py`
the tables.

`connection.py` keeps a connection open and limits the time of every call. `errors.py` is the table
of faults.
"""

from llm_fsm.stores.postgresql.store import PostgreSQLStore

__all__ = ["PostgreSQLStore"]

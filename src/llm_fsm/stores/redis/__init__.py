"""Conversations in Redis. `store.py` is the store, `scripts.py` has the Lua scripts, `errors.py`
the table of faults.

`connection.py` keeps the connections of one event loop, and the lease of its locks.
"""

from llm_fsm.stores.redis.store import RedisStore

__all__ = ["RedisStore"]

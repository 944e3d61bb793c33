"""Stores: conversations and definitions as text, behind one port.

Enters: commits, ids and queries of the engine. Leaves: the same texts, and errors that name the place and a way out.
Open `base.py` first: it is the port, and the contract of every store. `registry.py` finds the store of a URL,
`memory.py` is the one to copy, and each database has a folder. `errors.py` has the messages of all stores, `locks/` the
one writer per conversation, `batching.py` makes one request of many, `worker_thread.py` is the thread for blocking
calls, `forwarding.py` the methods of a store that works elsewhere. `llm_fsm.testing.store_suite` tests a store.
"""

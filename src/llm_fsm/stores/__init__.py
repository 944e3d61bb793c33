"""Stores: conversations and definitions as text, behind one port.

Commits, ids and queries of the engine enter. The same texts leave, or errors that name the place
and a way out. Open `base.py` first: it is the port, and the contract of every store. `registry.py`
finds the store of a URL, `memory.py` is the one to copy, and each database has a folder.
`errors.py` has the messages of all stores, and `locks/` ensures one writer per conversation.
`local.py` has the part that SQLite and files share, with a thread for blocking calls. `batching.py`
joins requests to a server. `forwarding.py` has the methods of a store that works elsewhere.
`llm_fsm.testing.store_suite` tests a store.
"""

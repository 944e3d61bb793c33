"""One writer per conversation: `conversation_lock.py` over a queue in the process and a lock between processes."""

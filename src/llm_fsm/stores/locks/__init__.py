"""One writer per conversation.

Open `conversation_lock.py` first: it joins a queue inside the process with a lock between
processes. `file_locks.py` is the lock of the operating system. `forks.py` keeps both correct when a
process forks.
"""

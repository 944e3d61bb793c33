"""One writer per conversation.

`conversation_lock.py` joins a queue inside the process with a lock between processes; open it first. `keyed_queue.py`
is the queue, and `file_locks.py` the lock of the operating system. `forks.py` keeps both sound when a process forks.
"""

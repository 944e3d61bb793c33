"""A real OpenAI-compatible server on the loopback address, whose replies a test scripts.

`server.py` is the context manager, `completions.py` renders replies, `faults.py` lists the failures that it can play,
and `http.py` is the little HTTP that it needs.
"""

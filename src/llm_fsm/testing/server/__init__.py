"""A real OpenAI-compatible server on the loopback address, with replies from a test's script.

`server.py` is the context manager, `completions.py` renders replies, `faults.py` lists the failures
that it can play, and `http.py` is the part of HTTP that it needs.
"""

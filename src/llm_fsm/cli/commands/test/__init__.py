"""`llm-fsm test`: the command in `run.py`, its part inside pytest in `plugin.py`, and what it
writes.

`coverage.py` reports coverage, `generate.py` writes generated tests, `save.py` writes a
conversation as a test.
"""

"""Measure which elements of a definition conversations touch.

Events of conversations enter; counts for each state, transition, condition outcome, key, key result and pattern leave.
`collect.py` counts, `read.py` reads the file that `llm-fsm test --coverage` writes.
"""

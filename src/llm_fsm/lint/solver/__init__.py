"""Reasoning about conditions: the values of keys with which a transition is open, closed, or
covered by another one.

Open `guards.py` first. `solver.py` reasons about the guards of one document. `value_sets.py`,
`cases.py` and `formulas.py` are the algebra below. `outcomes.py` finds how the values of a key
decide a test. `samples.py` draws examples.
"""

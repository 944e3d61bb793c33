"""Repair patterns: correct, cancel, digress and the like. `patterns.py` tells what they are,
`actions.py` what they do.

`corrections.py` goes back to answers that changed. `questions.py` finds the open question, to ask
it again.
"""

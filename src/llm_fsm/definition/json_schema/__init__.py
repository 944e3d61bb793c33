"""JSON Schemas of context keys, answers and tools.

Open `validator.py` first: it compiles a schema to a fast check that names faults. `inline.py`
replaces references and simplifies unions, so that a model reads a schema easily.
"""

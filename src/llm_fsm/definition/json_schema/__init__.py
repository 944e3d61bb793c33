"""JSON Schemas of context keys, answers and tools.

`validator.py` compiles a schema to a fast check that names faults; open it first. `inline.py` replaces references and
simplifies unions, so that a model reads a schema easily.
"""

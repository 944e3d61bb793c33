"""Facts of a document that several rules need.

A `Document` enters; frozen facts leave. Each fact is a function that is computed once for a
document. Open `data_flow.py` first: it finds the writers and readers of keys. `paths.py` follows
the paths through a machine.
"""

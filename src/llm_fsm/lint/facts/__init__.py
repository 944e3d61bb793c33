"""Facts of a document that several rules need.

A `Document` enters; frozen facts leave. Each fact is a function that is computed once for a document. Open
`data_flow.py` first: which keys are set where, and who reads them. `paths.py` follows the ways through a machine.
"""

"""Pictures of a machine.

A document enters; text in one of four forms leaves. `extract.py` makes a neutral picture; open it first. `mermaid.py`,
`dot.py`, `outline.py` and `terminal.py` are pure renderers of it.
"""

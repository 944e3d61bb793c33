"""Pictures of a machine.

A document enters; text in one of four forms leaves. Open `extract.py` first, which makes a neutral
picture. `mermaid.py`, `dot.py`, `outline.py` and `terminal.py` are pure renderers of it.
"""

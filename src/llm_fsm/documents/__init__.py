"""Files: definitions are found, read, checked, compared, drawn and converted here.

Enters: paths, texts or mappings. Leaves: definitions with the ones they call, or findings. Open `loader.py` first; it
reads through `files.py` and judges by `check.py`, which runs the linter. `discovery.py` finds files in folders, and
`subflows.py` the files that a definition calls. `diff/`, `draw/` and `convert/` compare, draw and convert definitions.
"""

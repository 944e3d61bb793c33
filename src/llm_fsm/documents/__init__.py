"""Find, read, check, compare, draw and convert definitions.

Paths, texts or mappings enter. Definitions with the ones they call leave, or findings. Open
`loader.py` first. It reads through `files.py` and checks by `check.py`, which runs the linter.
`discovery.py` finds files in folders, and `subflows.py` the files that a definition calls. `diff/`,
`draw/` and `convert/` compare, draw and convert definitions.
"""

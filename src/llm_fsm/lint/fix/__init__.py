"""Safe corrections. `fixes.py` chooses the changes, `edits.py` changes the text and keeps comments
and layout.
"""

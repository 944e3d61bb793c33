"""Safe corrections: `fixes.py` decides what to change, `edits.py` changes the text and keeps comments and layout."""

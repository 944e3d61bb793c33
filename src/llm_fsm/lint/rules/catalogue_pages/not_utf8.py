"""A file is not encoded in UTF-8.

Why it is bad:
JSON is UTF-8 (RFC 8259). Read in another encoding the words would reach users as garbage.

Example:
    {"name": "caf\\xe9"}    (saved as Latin-1)

Fix:
Save the file as UTF-8.
"""

from llm_fsm.lint.rule import told

RULE = told("not-utf8")

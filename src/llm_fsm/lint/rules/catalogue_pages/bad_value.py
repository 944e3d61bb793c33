"""A value has the right type and cannot stand there: an unknown choice, or a number out of bounds.

Why it is bad:
The definition cannot be loaded.

Example:
    "states": {"hello": {"purpose": "Greet the user", "kind": "conversation"}}

Fix:
Use one of the values that the message lists.
"""

from llm_fsm.lint.rule import told

RULE = told("bad-value")

"""A text holds half of a surrogate pair, which is no character.

Why it is bad:
It cannot be encoded: the prompt could not be sent and the conversation could not be stored.

Example:
    {"name": "\\ud83d"}

Fix:
Write the character itself, or both halves of the escape.
"""

from llm_fsm.lint.rule import told

RULE = told("bad-text")

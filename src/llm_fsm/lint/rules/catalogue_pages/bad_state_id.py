"""A state's id holds characters that ids cannot have, or is too long.

Why it is bad:
Ids are names that the model writes back: ASCII letters, digits, `_` and `-`, begun with a letter or `_`,
at most 64 characters. The definition cannot be loaded.

Example:
    "states": {"say hello": {"purpose": "Greet the user"}}

Fix:
Rename the state, and the transitions that lead to it.
"""

from llm_fsm.lint.rule import told

RULE = told("bad-state-id")

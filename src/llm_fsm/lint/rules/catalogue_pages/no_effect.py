"""A key of an older version is read and has no effect.

Why it is bad:
It does no harm; readers may think that it does something.

Example:
    "metadata": {"author": "Ada"}, "states": {"hello": {"purpose": "Greet"}}

Fix:
Remove it, or give it a name that begins with `x-`.
"""

from llm_fsm.lint.rule import told

RULE = told("no-effect")

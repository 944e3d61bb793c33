"""A document is written in an older form, or in that of another system, and was read as today's.

Why it is bad:
It works, and needs no change. Tools and people that know today's form only may stumble over it.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": ["bye"]}, "bye": {"purpose": "Say goodbye"}}

Fix:
`llm-fsm convert` writes today's form; `llm-fsm validate --fix` renames single keys.
"""

from llm_fsm.lint.rule import told

RULE = told("older-form")

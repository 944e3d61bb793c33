"""A value has another type than its key calls for.

Why it is bad:
The definition cannot be loaded.

Example:
    "states": {"hello": {"purpose": "Greet the user", "max_retries": "2"}}

Fix:
Write the value as the message says; `llm-fsm validate --fix` mends what is only quoted or unbracketed.
"""

from llm_fsm.lint.rule import told

RULE = told("wrong-type")

"""An object lacks a key that it cannot do without.

Why it is bad:
The definition cannot be loaded: a machine needs `name`, `initial_state` and `states`, a transition its
`target_state`, a key result its `name`.

Example:
    "states": {"hello": {"purpose": "Greet the user", "transitions": [{"description": "The user says goodbye"}]}}

Fix:
Add the key.
"""

from llm_fsm.lint.rule import told

RULE = told("missing-key")

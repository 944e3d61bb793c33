"""Subflows call one another deeper than eight levels.

Why it is bad:
Every level holds a context and a place to come back to, and nobody can follow such a conversation. The machine
cannot be made; `llm-fsm validate` looks at one file and does not report it.

Example:
    "name": "level-1",
    "states": {"down": {"kind": "subflow", "flow": "level-2.json", "transitions": [{"target_state": "done"}]},
               "done": {"purpose": "Say goodbye"}}

Fix:
Let one definition call several after another instead of each calling the next.
"""

from llm_fsm.lint.rule import told

RULE = told("flow-nesting")

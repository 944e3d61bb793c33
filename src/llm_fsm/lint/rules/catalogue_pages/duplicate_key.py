"""An object has the same key twice.

Why it is bad:
Only the last of the two counts, and which one that is depends on the program that reads the file. Half of
a state may silently be missing.

Example:
    {"states": {"hello": {"purpose": "Greet"}, "hello": {"purpose": "Ask for the name"}}}

Fix:
Keep one of them. `llm-fsm validate --fix` removes the second where both have the same value.
"""

from llm_fsm.lint.rule import told

RULE = told("duplicate-key")

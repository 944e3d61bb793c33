"""A definition uses a part of the format that this version checks and cannot run.

Why it is bad:
The machine cannot be started. `llm-fsm validate` does not report it; starting the machine does.

Example:
    "states": {"hello": {"purpose": "Greet"}}, "patterns": ["silence"]

Fix:
Leave that part out, or wait for the version that runs it.
"""

from llm_fsm.lint.rule import told

RULE = told("not-runnable-yet")

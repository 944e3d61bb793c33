"""`x-lint` leaves findings out and does not say why.

Why it is bad:
Whoever reads the file later cannot tell a decision from a mistake.

Example:
    "x-lint": {"ignore": ["no-final-state"]},
    "states": {"a": {"purpose": "Ask", "transitions": [{"target_state": "b"}]},
               "b": {"purpose": "Answer", "transitions": [{"target_state": "a"}]}}

Fix:
Write `{"rule": "no-final-state", "reason": "an open-ended companion"}`.
"""

from llm_fsm.lint.rule import told

RULE = told("ignore-without-reason")

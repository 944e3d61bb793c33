"""`x-lint` leaves out a rule that finds nothing there, or one whose findings are errors.

Why it is bad:
The entry hides nothing today, and may hide a real fault tomorrow. Errors cannot be left out in the file:
what cannot work has to be mended.

Example:
    "x-lint": {"ignore": [{"rule": "trap", "reason": "the lobby is a loop"}]},
    "states": {"hello": {"purpose": "Greet"}}

Fix:
Remove the entry, or correct its `at`.
"""

from llm_fsm.lint.rule import told

RULE = told("unused-ignore")

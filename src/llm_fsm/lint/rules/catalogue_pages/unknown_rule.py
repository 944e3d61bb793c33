"""`x-lint` names a rule that does not exist, or is written in another form than it can have.

Why it is bad:
What was to be left out is reported all the same.

Example:
    "x-lint": {"ignore": [{"rule": "unreachable-sate", "reason": "entered by the host"}]},
    "states": {"hello": {"purpose": "Greet"}}

Fix:
Write `"x-lint": {"ignore": ["rule-name", {"rule": "rule-name", "at": "/states/x", "reason": "…"}]}`;
docs/rules.md lists the rules.
"""

from llm_fsm.lint.rule import told

RULE = told("unknown-rule")

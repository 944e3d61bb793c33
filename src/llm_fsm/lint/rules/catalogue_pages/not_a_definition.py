"""A document is not a JSON object.

Why it is bad:
A definition is one object with `name`, `initial_state` and `states`; a list or a text is something else.

Example:
    [{"name": "greeter"}]

Fix:
Put each machine into a file of its own, and name only files that hold definitions.
"""

from llm_fsm.lint.rule import told

RULE = told("not-a-definition")

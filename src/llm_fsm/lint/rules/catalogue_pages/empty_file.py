"""A file holds nothing but white space.

Why it is bad:
There is no machine in it; often an editor or a script stopped while it was writing.

Example:
    llm-fsm validate empty.json

Fix:
Write a definition: one JSON object with `name`, `initial_state` and `states`. `llm-fsm new` makes one.
"""

from llm_fsm.lint.rule import told

RULE = told("empty-file")

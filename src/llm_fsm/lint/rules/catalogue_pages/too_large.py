"""A file is larger than 10 MB.

Why it is bad:
No definition that people write comes near; such a file is data, or was made by accident.

Example:
    llm-fsm validate export_of_all_conversations.json

Fix:
Name the definition, and split a machine that large into subflows.
"""

from llm_fsm.lint.rule import told

RULE = told("too-large")

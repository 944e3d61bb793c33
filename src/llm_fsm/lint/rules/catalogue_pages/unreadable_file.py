"""A file that is named cannot be opened or read.

Why it is bad:
Nothing is known about the definition; a check that passes over it says nothing.

Example:
    llm-fsm validate missing.json

Fix:
Correct the path, or the permissions of the file. A folder stands for the definitions below it.
"""

from llm_fsm.lint.rule import told

RULE = told("unreadable-file")

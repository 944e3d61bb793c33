"""Lists and objects are nested deeper than 200 levels.

Why it is bad:
No definition needs it, and reading it without end would bring the program down.

Example:
    [[[[[[[[[[[[[[[[ …

Fix:
Take the nesting out; a value that holds itself cannot be written as JSON.
"""

from llm_fsm.lint.rule import told

RULE = told("too-deep")

"""A number is not finite, or a whole number does not fit in 64 bits.

Why it is bad:
It cannot be written as JSON, or other programs read another number from it.

Example:
    {"limits": {"seconds": Infinity}}

Fix:
Write the number that is meant; leave a limit away where there is to be none.
"""

from llm_fsm.lint.rule import told

RULE = told("bad-number")

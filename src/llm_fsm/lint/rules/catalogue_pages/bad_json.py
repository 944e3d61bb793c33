"""A text is not JSON: a quote, comma or bracket is missing, or something stands where it cannot.

Why it is bad:
The definition cannot be read at all, so nothing else about it can be checked.

Example:
    {"name": "greeter" "initial_state": "hello"}

Fix:
Mend the place that the message names. Comments and trailing commas are accepted.
"""

from llm_fsm.lint.rule import told

RULE = told("bad-json")

"""A part of an older or foreign document has no counterpart, so what it said is not done.

Why it is bad:
The machine behaves otherwise than in the system that it was written for.

Example:
    "states": {"hello": {"purpose": "Greet", "optional_context_keys": ["nickname"]}}

Fix:
Say the same with today's means, as the hint tells, and remove the key.
"""

from llm_fsm.lint.rule import told

RULE = told("not-mapped")

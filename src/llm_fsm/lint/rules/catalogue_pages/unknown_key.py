"""An object has a key that the format does not know.

Why it is bad:
The key is ignored. What it was to say – a transition, a limit, a key to collect – is not there.

Example:
    "states": {"hello": {"porpose": "Greet the user"}}

Fix:
Use the name that the hint gives. Keys of your own may begin with `x-`.
"""

from llm_fsm.lint.rule import told

RULE = told("unknown-key")

"""The `input` or `output` of a subflow names a key that is not there, or takes a secret to a key that is none.

Why it is bad:
The value never arrives, or a value that must stay out of prompts and logs would be shown in them. The machine
cannot be made; `llm-fsm validate` looks at one file and does not report it.

Example:
    "states": {"pay": {"kind": "subflow", "flow": "payment.json", "output": {"paid": "piad"},
                       "transitions": [{"target_state": "done"}]},
               "done": {"purpose": "Say goodbye"}}

Fix:
`input` is key of the called definition ← key here, `output` is key here ← key of the called definition. Correct
the name, or declare the key with `x-secret` on both sides.
"""

from llm_fsm.lint.rule import told

RULE = told("flow-mapping")

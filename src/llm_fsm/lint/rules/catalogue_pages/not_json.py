"""A mapping that was given in place of a file holds a value that JSON does not have.

Why it is bad:
A definition is data. Sets, dates, functions and keys that are not text cannot be stored or compared.

Example:
    load_dict({"name": "greeter", "ui": {1, 2}})

Fix:
Give lists, mappings with text keys, texts, numbers, true, false and null only.
"""

from llm_fsm.lint.rule import told

RULE = told("not-json")

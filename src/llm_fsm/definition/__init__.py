"""A definition file: its format, and its validation.

Enters: text or a mapping. Leaves: a frozen `Definition`, or findings with their places. Open
`models.py` first: it has every key. `validation.py` finds faults of form, `json_source.py` knows
where in the text things stand, and `compat/` reads older forms. `schema.py` generates the published
JSON Schema. `graph.py` searches states and transitions.
"""

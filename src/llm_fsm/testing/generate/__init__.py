"""Make tests from definitions.

A definition enters; a file of tests leaves, with a list of what it could not reach. `generator.py`
drives: `planner.py` plans conversations for each state, `paths.py` finds paths, and `solver.py`
finds values for conditions. `values.py` makes values of schemas, and `task_outputs.py` outputs for
key results. Open `generator.py` first.
"""

"""The prompts: `render.py` fills `prompts/*.j2`, and `state_summary.py` describes states.

Large machines show a part of their states: `regions.py` chooses it. `tasks.py` has the prompts of
tasks and judges.
"""

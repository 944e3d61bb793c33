"""The prompts: `render.py` fills `prompts/*.j2`, and `options.py` writes the lines of <transitions>.

`state_text.py` has the texts of a state. `tasks.py` has the prompts of tasks and judges.
"""

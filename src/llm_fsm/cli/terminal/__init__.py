"""The parts of the command line that a person sees and types.

Every line goes through `console.py`, which escapes what came from outside; open it first.
`session.py` is a conversation and `progress.py` a run. `answers.py` and `slash_commands.py` read
what a person types. `explain.py`, `excerpt.py` and `prompts.py` make lines of explanations,
findings and prompts. `wrap.py` breaks the lines of a reply while it comes. `escape.py` makes texts
safe to show.
"""

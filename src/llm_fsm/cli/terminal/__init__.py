"""The parts of the command line that a person sees and types.

`session.py` is a conversation and `progress.py` a run; open them first. `answers.py`, `form.py` and `slash_commands.py`
read what a person types. `explain.py`, `excerpt.py` and `prompts.py` show explanations, findings and prompts.
`styled.py`, `wrap.py` and `escape.py` write lines. Text from outside reaches the screen only through `escape.py`.
"""

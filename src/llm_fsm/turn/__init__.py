"""The pure machine: a message and a session go in; events, effects and a new session come out.

Enters: a compiled definition, a `Session`, and a message, an answer, a run or a time. Leaves: a
`Step` with events and the effects that the shell must perform. Open `steps.py` first: `begin` and
`advance` are the whole interface. Then `pipeline.py` has the order of a turn over `turn_state.py`,
the one mutable value.

- What follows: `next_step.py` has the one rule, `transitions.py` performs it, `rest.py` foresees
  it, `available.py` looks for all that could follow.
- A message: `decide.py` asks the model by `model.py`; `guards.py` judges what it picks.
- Words: `response.py` has those of the definition.
- Work: `tasks.py`, `subflows.py` and `tool_loop.py`.

`compile.py` prepares a definition once. `prompt/` is what the model reads, `reply/` is what it
wrote, and `repair/` has the repair patterns.

This room has no clock, no randomness and no input or output.
"""

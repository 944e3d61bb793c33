"""The pure machine: a message and a session go in; events, effects and a new session come out.

Enters: a compiled definition, a `Session`, and a message, an answer, a run or a time. Leaves: a `Step` with events and
the effects that the shell must perform. Open `steps.py` first: `begin` and `advance` are the whole interface. Then
`pipeline.py` has the order of a turn over `turn_state.py`, the one mutable value. `available.py` says what can follow,
`decide.py` asks the model by `model.py` and checks its pick by `guards.py`. `transitions.py` makes moves, `next_step.py` says what follows in a state, `rest.py`
tells where they come to rest, and `response.py` chooses the words. `tasks.py`, `subflows.py` and `tool_loop.py` are
the other ways on. `compile.py` prepares a definition once. `prompt/` is what the model reads, `reply/` is what it
wrote, and `repair/` has the repair patterns.

This room has no clock, no randomness and no input or output.
"""

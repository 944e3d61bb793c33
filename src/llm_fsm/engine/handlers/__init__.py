"""The host's own functions at eight points of a turn.

Enters: a RunHandlers effect. Leaves: the handlers' results. `registry.py` has `Handler`,
`Occasion`, `Veto` and the builder; open it first. `runner.py` runs the handlers of one point, and
`end.py` those of END_CONVERSATION, which run after the turn is on record.
"""

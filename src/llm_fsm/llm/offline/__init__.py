"""A model that needs no provider, for trying a machine.

A request with the view of the turn enters; a reply leaves. Open `model.py` first: it is the
adapter, and decides. `extract.py` finds values in a message, and `wording.py` writes the replies.
"""

"""A partner without a model, for trying a machine.

A request with the view of the turn enters; a reply leaves. `model.py` is the adapter and decides; open it first.
`extract.py` finds values in a message, and `wording.py` writes the replies.
"""

"""A partner without a model. `model.py` is the adapter, `extract.py` finds values, `wording.py` writes the replies."""

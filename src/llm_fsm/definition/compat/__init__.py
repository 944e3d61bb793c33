"""Older and foreign forms of a definition, mapped to the form of today.

A document enters; the mapped document and findings about it leave. `legacy.py` maps older forms of
ours, `foreign.py` documents of other systems. Nothing else in the package knows these forms.
"""

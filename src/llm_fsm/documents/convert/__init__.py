"""Other notations of state machines, read into definitions and written from them.

A reader makes a `chart` of nested states and of arrows with guards as text. `flatten` turns it into a definition. Every
reader and writer reports what it could not carry over.
"""

"""Other notations of state machines, read into definitions and written from them.

Reading goes through a `chart` (states that may contain others, arrows with guards as text), which `flatten` turns
into a definition. Every reader and writer says what it could not carry over.
"""

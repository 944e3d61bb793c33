"""Read other notations of state machines into definitions, and write them from definitions.

A reader makes a `chart` of nested states and of arrows with guards as text. `flatten` turns it into
a definition. Every reader and writer reports the parts that it could not convert.
"""

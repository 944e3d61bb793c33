"""Services on recorded conversations: they read turn records, and need no running machine.

A store, or the records of one conversation, enter. `explain.py` says why a turn went as it did.
`replay.py` plays the recorded turns again and finds the first difference. `transfer.py` exports,
imports and forks whole conversations. `doctor.py` examines a store and reports what contradicts
itself. Open `session_reader.py` first: a stored session refers to large values in its records, and
this module puts them back.
"""

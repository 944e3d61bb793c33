"""Work that goes on without a caller, on as many machines as you have.

`temporal` gives batches, runs, timers and messages to Temporal (extra `temporal`).
"""

"""The contract that every store must pass, as checks that a test calls with a fresh store.

`suite.py` lists them. `documents.py` checks loading and saving, `locks.py` the exclusion of
writers, `outbox.py` deliveries and listings.
"""

"""Delivery of events to other systems, at least once and in order.

Enters: rows of the store's outbox, written with each turn. Leaves: calls of sinks. `sinks.py` has `Sink` and
`Delivery`; open it first. `dispatcher.py` delivers in the background and retries, and `webhook.py` is the sink that
posts to an address.
"""

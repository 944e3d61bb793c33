"""Delivery of events to other systems, at least once and in order.

Rows of the store's outbox enter, written with each turn. Calls of sinks leave. Open `sinks.py`
first, which has `Sink` and `Delivery`. `dispatcher.py` delivers in the background and retries, and
`webhook.py` is the sink that posts to a URL.
"""

"""Messengers as channels of the server: Slack, Telegram and WhatsApp.

A request of a messenger enters. The words of its user go on to the conversation of the thread, and
the answer leaves through the outbox of the store, in the sizes that the messenger takes. Open
`door.py` first: it has `Messenger`, the table of what differs, and `Door`, which plays and delivers.
`fit.py` fits an answer to the limits. `slack.py`, `telegram.py` and `whatsapp.py` have one table
each, and the routes for `llm-fsm serve --channel`.
"""

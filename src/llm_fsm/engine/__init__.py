"""The shell around the pure turn: it locks, loads, plays, commits, and informs observers and sinks.

A caller's message, answer or request enters. A `Turn` leaves, and events for observers and sinks.
`machine.py` and `conversation.py` are the front door for asyncio, and `sync.py` (over `portal.py`)
the one without. Open `engine.py` first: `Engine.take` is the whole path of a message.
`unattended.py` plays turns that no caller waits for, and `edits.py` changes a conversation between
turns. `turn_runner.py` performs the effects of a turn with the tools, handlers and model of a deployment
(`deployment.py`). `journal.py` makes them safe against crashes. `recovery.py` and `idempotency.py`
decide what a repeated or interrupted request does. `versions.py` picks the definition version of a
conversation. The room `records` works on recorded conversations.
"""

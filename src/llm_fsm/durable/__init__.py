"""Work that goes on without a caller, on as many machines as you have.

Messages enter with `submit` and are kept by the store. Workers answer them, and `result` returns
their turns. `messages.py` has these functions; open it first.
`temporal` gives batches, runs, timers and messages to Temporal (extra `temporal`).
"""

from llm_fsm.durable.messages import (
    Health,
    MessageCancelled,
    MessageRefused,
    Submission,
    cancel,
    health,
    result,
    submit,
)

__all__ = [
    "Health",
    "MessageCancelled",
    "MessageRefused",
    "Submission",
    "cancel",
    "health",
    "result",
    "submit",
]

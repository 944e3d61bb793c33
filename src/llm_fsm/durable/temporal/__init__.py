"""Batches, runs, timers and messages without a caller, as workflows of Temporal.

The store stays the truth: a workflow holds ids, inputs and the next due time, and never a session.
So a Temporal server that lost everything loses nothing of ours: workers ask the store what is due.
Live turns do not come here; they stay in the process that got them.

Read `flows` first. `worker` does the work, `client` gives it, and `connection` has the server.
"""

from __future__ import annotations

from llm_fsm.durable.temporal.client import CHUNK, play_chunks, send
from llm_fsm.durable.temporal.connection import (
    ForgettingStore,
    check_namespace,
    connect,
    forget,
    patiently_connected,
)
from llm_fsm.durable.temporal.flows import (
    BATCH_QUEUE,
    QUEUE,
    Ask,
    BatchWorkflow,
    Chunk,
    ConversationWorkflow,
    Done,
    RunWorkflow,
    Watch,
)
from llm_fsm.durable.temporal.worker import Activities, watch_due, work

__all__ = [
    "BATCH_QUEUE",
    "CHUNK",
    "QUEUE",
    "Activities",
    "Ask",
    "BatchWorkflow",
    "Chunk",
    "ConversationWorkflow",
    "Done",
    "ForgettingStore",
    "RunWorkflow",
    "Watch",
    "check_namespace",
    "connect",
    "forget",
    "patiently_connected",
    "play_chunks",
    "send",
    "watch_due",
    "work",
]

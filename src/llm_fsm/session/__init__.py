"""The state of one conversation, as frozen values.

Enters: events (`events.py`), each a fact that happened in a turn. `reducer.apply` folds an event
into a `Session`, and nothing else changes one. Leaves: the session after the events, and its stored
JSON form (`session.py`). A `TurnRecord` keeps the events of one turn for good; `replay` folds
records back into the session.

The other modules hold parts of a session. `context.py` decides who may write which key. `values.py`
has its JSON values. `reply_schema.py` is the form that a reply has, and `normalize.py` reads values
in other forms. `memory.py` is the working memory, and `redaction.py` hides secrets.
`large_values.py` keeps large values out of stored sessions. `deadlines.py` lists its time-outs and
reminders. `messages.py` has the values that the engine, models and callers exchange.
`integrity.py` checks imported conversations. Open `session.py` first, then `reducer.py`.

This room has no clock, no randomness and no input or output.
"""

from llm_fsm.session.events import Event
from llm_fsm.session.memory import Background, Memory
from llm_fsm.session.messages import (
    LLMMessage,
    LLMRequest,
    Message,
    ModelReply,
    Paused,
    ToolCall,
    ToolSpec,
    Usage,
)
from llm_fsm.session.reducer import apply, fold
from llm_fsm.session.session import Frame, Session, Silence, Work, dump_session, parse_session
from llm_fsm.session.turn_record import TurnRecord, replay, transcript

__all__ = [
    "Background",
    "Event",
    "Frame",
    "LLMMessage",
    "LLMRequest",
    "Memory",
    "Message",
    "ModelReply",
    "Paused",
    "Session",
    "Silence",
    "ToolCall",
    "ToolSpec",
    "TurnRecord",
    "Usage",
    "Work",
    "apply",
    "dump_session",
    "fold",
    "parse_session",
    "replay",
    "transcript",
]

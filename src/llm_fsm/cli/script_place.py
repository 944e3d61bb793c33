"""The place in a script of replies at which a stored conversation goes on."""

from __future__ import annotations

import json
from typing import TypeAlias

from llm_fsm.llm.base import LLM
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.events import ModelReplied
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Store

_SCRIPTED = "scripted"
"""The mode of replies that a script gave."""
_Used: TypeAlias = tuple[str, list[str]]
"""The text of a reply, and the names of the tools that it calls."""


async def keep_place(llm: LLM | None, store: Store, conversation_id: str) -> None:
    """Let a scripted model go on after the replies that a conversation has used.

    A script whose first reply the conversation did not begin with is another one. It begins with its first reply.

    Args:
        llm: The model. All but a scripted one stay as they are.
        store: The store of the conversation.
        conversation_id: The conversation that is resumed.

    Raises:
        StoreError: The store or a record cannot be read.
    """
    if not isinstance(llm, ScriptedLLM):
        return
    used: list[_Used] = []
    for text in await store.records(conversation_id):
        for event in parse(text).events:
            if isinstance(event, ModelReplied) and event.mode == _SCRIPTED:
                used.append((event.text, [call["name"] for call in event.calls]))
    # A turn that was cut off takes its replies from the journal and does not ask for them again.
    for text in await store.journalled(conversation_id):
        entry = json.loads(text)
        if entry.get("mode") == _SCRIPTED:
            used.append((entry["text"], [call["name"] for call in entry["tool_calls"]]))
    if used and llm.next_reply() == used[0]:
        llm.skip(len(used))

"""The place in a script of replies at which a stored conversation goes on."""

from __future__ import annotations

import json

from llm_fsm.llm.base import LLM
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.base import Store


async def keep_place(llm: LLM | None, store: Store, conversation_id: str) -> None:
    """Let a scripted model go on after the replies that a conversation has used.

    A script whose first reply the conversation did not begin with is another one. It begins with
    its first reply.

    Args:
        llm: The model. All but a scripted one stay as they are.
        store: The store of the conversation.
        conversation_id: The conversation that is resumed.

    Raises:
        StoreError: The store or a record cannot be read.
    """
    if not isinstance(llm, ScriptedLLM):
        return
    entries = []
    for text in await store.records(conversation_id):
        entries += json.loads(text)["events"]
    # A turn that was cut off takes its replies from the journal and does not ask for them again.
    entries += map(json.loads, await store.journalled(conversation_id))
    used = [entry for entry in entries if entry.get("mode") == "scripted"]
    if used and llm.begins_with(used[0]):
        llm.skip(len(used))

"""The listing of a store is walked through as a whole, and begins at any prefix."""

from __future__ import annotations

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.stores.base import ListQuery, every_line, just_before
from llm_fsm.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
NAMES = ["a", "b", "b-1", "b-2", "b.", "c", "\ud7ffx", "\ue000", "\ue000x"]


async def test_every_line_comes_once_whatever_the_size_of_a_page_and_from_a_prefix_on() -> None:
    store = MemoryStore()
    states = {"hello": {"purpose": "Greet", "kind": "final", "reply": "Hello!"}}
    document = {"name": "greeter", "initial_state": "hello", "states": states}
    async with AsyncMachine.from_dict(document, model="offline", store=store) as machine:
        for name in NAMES:
            await machine.start(conversation_id=name)
        for size in (1, 2, 9, 100):
            assert [
                line.conversation_id async for line in every_line(store, ListQuery(limit=size))
            ] == NAMES
        for place, name in enumerate(NAMES):
            query = ListQuery(after=just_before(name), limit=2)
            assert [line.conversation_id async for line in every_line(store, query)] == NAMES[
                place:
            ]

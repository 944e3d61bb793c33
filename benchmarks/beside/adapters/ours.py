"""llm_fsm of this checkout: `machine.json`, the `compat` adapter, the memory store or SQLite."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from adapters.common import MODEL, environment, folder_bytes
from policy import FormPolicy

_MACHINE = Path(__file__).parents[1] / "machine.json"


class _Stub:
    """A model in process: the same answers as over HTTP."""

    def __init__(self) -> None:
        self.policy = FormPolicy()

    async def complete(self, request: Any) -> Any:
        from llm_fsm.session.messages import ModelReply

        messages = [
            {"role": message.role, "content": message.content} for message in request.messages
        ]
        return ModelReply(
            text=self.policy.reply({"messages": messages}).content or "", model="stub"
        )


class Async:
    """`AsyncMachine`."""

    is_async = True

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from llm_fsm import AsyncMachine

        self.store = store
        where = {} if store is None else {"store": f"sqlite:///{store}/form.db"}
        if stub:
            self.machine = AsyncMachine.from_file(_MACHINE, model=_Stub(), **where)
        else:
            self.machine = AsyncMachine.from_file(
                _MACHINE, api_key="sk-fake", timeout=120, **self.door(base_url), **where
            )

    def door(self, base_url: str) -> dict[str, str]:
        """How the server is reached: by our own client, as it reaches OpenAI, at the address of the
        environment.

        At an address of this machine that it is given, it would take the server for a local one.
        """
        return {"model": f"openai/{MODEL}"}

    def open(self, id: str) -> dict[str, Any]:
        return {"id": id}

    async def start(self, conversation: Any) -> str:
        conversation["chat"] = await self.machine.start(conversation_id=conversation["id"])
        return conversation["chat"].greeting

    async def turn(self, conversation: Any, text: str) -> str:
        conversation["turn"] = turn = await conversation["chat"].send(text)
        return turn.text

    async def stream(self, conversation: Any, text: str) -> Any:
        from llm_fsm.session.events import MessageDelta

        async for event in conversation["chat"].stream(text):
            if isinstance(event, MessageDelta):
                yield event.text

    def state(self, conversation: Any) -> str:
        return conversation["turn"].state

    def data(self, conversation: Any) -> dict[str, Any]:
        return dict(conversation["turn"].context)

    def store_bytes(self) -> int:
        return folder_bytes(self.store or "")

    async def aclose(self) -> None:
        await self.machine.close()


class ByLitellm(Async):
    """`AsyncMachine` through litellm, which reads the address from the environment."""

    def door(self, base_url: str) -> dict[str, str]:
        return {"model": f"litellm:openai/{MODEL}"}


class Sync(Async):
    """`Machine`: the same without asyncio."""

    is_async = False

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from llm_fsm import Machine

        self.store = store
        where = {} if store is None else {"store": f"sqlite:///{store}/form.db"}
        options: dict[str, Any] = (
            {"model": _Stub()}
            if stub
            else {"model": f"openai/{MODEL}", "api_key": "sk-fake", "timeout": 120}
        )
        self.machine = Machine.from_file(_MACHINE, **options, **where)

    def start(self, conversation: Any) -> str:  # type: ignore[override]
        conversation["chat"] = self.machine.start(conversation_id=conversation["id"])
        return conversation["chat"].greeting

    def turn(self, conversation: Any, text: str) -> str:  # type: ignore[override]
        conversation["turn"] = turn = conversation["chat"].send(text)
        return turn.text

    def stream(self, conversation: Any, text: str) -> Any:
        from llm_fsm.session.events import MessageDelta

        for event in conversation["chat"].stream(text):
            if isinstance(event, MessageDelta):
                yield event.text

    async def aclose(self) -> None:
        await asyncio.to_thread(self.machine.close)

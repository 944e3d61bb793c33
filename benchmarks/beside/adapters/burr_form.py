"""Burr: `receive` takes the message, then one action per stage, and back; kept by a
SQLitePersister.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adapters.common import MODEL, environment, folder_bytes
from hand_form import STAGES, advance, build_messages
from stub import StubOpenAI

_READS = ["stage", "data", "history", "user"]
_WRITES = ["stage", "data", "history", "reply"]


def _asked(state: Any) -> list[dict[str, str]]:
    return build_messages(state["stage"], state["data"], state["history"], state["user"])


def _answered(state: Any, content: str) -> Any:
    reply = json.loads(content)
    stage, data = advance(state["stage"], state["data"], reply)
    said = [
        {"role": "user", "content": state["user"]},
        {"role": "assistant", "content": reply["reply"]},
    ]
    return state.update(
        stage=stage, data=data, reply=reply["reply"], history=state["history"] + said
    )


class Sync:
    """Actions call the openai SDK."""

    is_async = False

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from burr.core import action, when

        @action(reads=[], writes=["user"])
        def receive(state: Any, user: str) -> Any:
            return state.update(user=user)

        self.store = store
        self.actions = {"receive": receive, **{stage: self.action(stub) for stage in STAGES}}
        self.transitions = [("receive", stage, when(stage=stage)) for stage in STAGES]
        self.transitions += [(stage, "receive") for stage in STAGES]
        self.saver = None
        if store is not None:
            from burr.core.persistence import SQLitePersister

            self.saver = SQLitePersister(str(Path(store, "burr.db")))
            self.saver.initialize()

    def action(self, stub: bool) -> Any:
        import openai
        from burr.core import action

        client = StubOpenAI() if stub else openai.OpenAI()

        @action(reads=_READS, writes=_WRITES)
        def stage(state: Any) -> Any:
            made = client.chat.completions.create(model=MODEL, messages=_asked(state))
            return _answered(state, made.choices[0].message.content)

        return stage

    def open(self, id: str) -> Any:
        from burr.core import ApplicationBuilder

        builder = (
            ApplicationBuilder().with_actions(**self.actions).with_transitions(*self.transitions)
        )
        builder = builder.with_entrypoint("receive").with_state(
            stage="greeting", data={}, history=[]
        )
        builder = builder.with_identifiers(app_id=id, partition_key="p")
        return (builder.with_state_persister(self.saver) if self.saver else builder).build()

    def start(self, conversation: Any) -> None:
        """Nothing: the form greets with its first reply."""

    def turn(self, conversation: Any, text: str) -> Any:
        conversation.run(halt_after=list(STAGES), inputs={"user": text})
        return conversation.state["reply"]

    def state(self, conversation: Any) -> str:
        return conversation.state["stage"]

    def data(self, conversation: Any) -> dict[str, Any]:
        return conversation.state["data"]

    def store_bytes(self) -> int:
        return folder_bytes(self.store or "")


class Async(Sync):
    """The same, async."""

    is_async = True

    def action(self, stub: bool) -> Any:
        import openai
        from burr.core import action

        client = StubOpenAI(is_async=True) if stub else openai.AsyncOpenAI()

        @action(reads=_READS, writes=_WRITES)
        async def stage(state: Any) -> Any:
            made = await client.chat.completions.create(model=MODEL, messages=_asked(state))
            return _answered(state, made.choices[0].message.content)

        return stage

    async def turn(self, conversation: Any, text: str) -> Any:
        await conversation.arun(halt_after=list(STAGES), inputs={"user": text})
        return conversation.state["reply"]

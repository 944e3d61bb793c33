"""LangGraph: a node per stage, entered by stage; threads kept by a checkpointer, in memory or in
SQLite.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, TypedDict

from adapters.common import MODEL, environment, folder_bytes
from hand_form import STAGES, advance, build_messages
from stub import StubOpenAI


class Form(TypedDict, total=False):
    """The graph's state."""

    stage: str
    data: dict[str, Any]
    history: list[dict[str, str]]
    user: str
    reply: str


def _asked(form: Form) -> list[dict[str, str]]:
    return build_messages(form["stage"], form["data"], form["history"], form["user"])


def _answered(form: Form, content: str) -> Form:
    reply = json.loads(content)
    stage, data = advance(form["stage"], form["data"], reply)
    said = [
        {"role": "user", "content": form["user"]},
        {"role": "assistant", "content": reply["reply"]},
    ]
    return {
        "stage": stage,
        "data": data,
        "reply": reply["reply"],
        "history": form["history"] + said,
    }


class Sync:
    """Nodes call the openai SDK."""

    is_async = False

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from langgraph.graph import END, START, StateGraph

        self.store = store
        node = self.node(stub)
        graph = StateGraph(Form)
        for stage in STAGES:
            graph.add_node(stage, node)
            graph.add_edge(stage, END)
        graph.add_conditional_edges(
            START, lambda form: form["stage"], {stage: stage for stage in STAGES}
        )
        self.graph = graph.compile(checkpointer=self.saver())

    def saver(self) -> Any:
        if self.store is None:
            from langgraph.checkpoint.memory import MemorySaver

            return MemorySaver()
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver(sqlite3.connect(Path(self.store, "graph.db"), check_same_thread=False))

    def node(self, stub: bool) -> Any:
        import openai

        client = StubOpenAI() if stub else openai.OpenAI()

        def node(form: Form) -> Form:
            made = client.chat.completions.create(model=MODEL, messages=_asked(form))
            return _answered(form, made.choices[0].message.content)

        return node

    def open(self, id: str) -> dict[str, Any]:
        return {"config": {"configurable": {"thread_id": id}}, "out": None}

    def start(self, conversation: Any) -> None:
        """Nothing: the form greets with its first reply."""

    def given(self, conversation: Any, text: str) -> Form:
        if conversation["out"]:
            return {"user": text}
        return {"stage": "greeting", "data": {}, "history": [], "user": text}

    def turn(self, conversation: Any, text: str) -> Any:
        conversation["out"] = self.graph.invoke(
            self.given(conversation, text), conversation["config"]
        )
        return conversation["out"]["reply"]

    def state(self, conversation: Any) -> str:
        return conversation["out"]["stage"]

    def data(self, conversation: Any) -> dict[str, Any]:
        return conversation["out"]["data"]

    def store_bytes(self) -> int:
        return folder_bytes(self.store or "")


class Async(Sync):
    """The same, async."""

    is_async = True

    def node(self, stub: bool) -> Any:
        import openai

        client = StubOpenAI(is_async=True) if stub else openai.AsyncOpenAI()

        async def node(form: Form) -> Form:
            made = await client.chat.completions.create(model=MODEL, messages=_asked(form))
            return _answered(form, made.choices[0].message.content)

        return node

    async def turn(self, conversation: Any, text: str) -> Any:
        conversation["out"] = await self.graph.ainvoke(
            self.given(conversation, text), conversation["config"]
        )
        return conversation["out"]["reply"]

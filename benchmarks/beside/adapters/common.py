"""What every adapter gives the worker.

class Peer:
    is_async: bool             `start` and `turn` are coroutines when true
    turns_per_call = 1         how many turns of the conversation one `turn` stands for
    Peer(base_url, stub, store)     `stub`: no HTTP, the model is called in process; `store`: None,
    or a folder open(id) -> conversation        cheap, no model call
    start(conversation)             the greeting, where the system makes one by a model call
    turn(conversation, text) -> the reply's words
    state(conversation), data(conversation)
    stream(conversation, text)      optional: pieces of text as they come
    store_bytes()                   optional: how much the durable store holds
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hand_form import advance, build_messages

MODEL = "gpt-4o-mini"


def environment(base_url: str) -> None:
    """What the clients read from the environment; nobody may call home."""
    os.environ.update(
        OPENAI_API_KEY="sk-fake",
        OPENAI_API_BASE=base_url,
        OPENAI_BASE_URL=base_url,
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LITELLM_TELEMETRY="False",
        LANGSMITH_TRACING="false",
        LANGCHAIN_TRACING_V2="false",
        HAMILTON_TELEMETRY_ENABLED="false",
        BURR_TELEMETRY_ENABLED="false",
        LOGFIRE_IGNORE_NO_CONFIG="1",
    )


def folder_bytes(path: str) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


class HandForm:
    """A form written by hand around a raw client: one call a turn, the prompt of `hand_form`."""

    is_async = False

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        self.base_url, self.stub, self.store = base_url, stub, store
        self.setup()

    def setup(self) -> None:
        """Make the client."""

    def open(self, _id: str) -> dict[str, Any]:
        return {"stage": "greeting", "data": {}, "history": []}

    def start(self, conversation: Any) -> None:
        """Nothing: the form greets with its first reply."""

    def messages(self, conversation: Any, text: str) -> list[dict[str, str]]:
        return build_messages(
            conversation["stage"], conversation["data"], conversation["history"], text
        )

    def finish(self, conversation: Any, text: str, content: str) -> str:
        reply = json.loads(content)
        conversation["stage"], conversation["data"] = advance(
            conversation["stage"], conversation["data"], reply
        )
        conversation["history"] += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": reply["reply"]},
        ]
        return reply["reply"]

    def state(self, conversation: Any) -> str:
        return conversation["stage"]

    def data(self, conversation: Any) -> dict[str, Any]:
        return conversation["data"]

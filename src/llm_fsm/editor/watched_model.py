"""A model whose requests and replies are kept for the inspector, as they were sent."""

from __future__ import annotations

from typing import Any

from llm_fsm._json import JsonDict
from llm_fsm.editor.models import ModelCall
from llm_fsm.errors import ModelError
from llm_fsm.llm.watched import WatchedLLM
from llm_fsm.session.events import ModelReplied
from llm_fsm.session.messages import LLMRequest, ModelReply


def call_of(
    messages: list[JsonDict] | None, reply: ModelReply | ModelReplied | ModelError
) -> ModelCall:
    """Return a call of a model by its reply. `messages` None: they are not on record."""
    if isinstance(reply, ModelError):
        return ModelCall(messages=messages, reply="", error=str(reply))
    return ModelCall(
        messages=messages,
        reply=reply.text,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        seconds=reply.seconds,
    )


class WatchedModel(WatchedLLM):
    """Passes requests to a model, and keeps them with their replies; for the protocol see `LLM`.

    Args:
        llm: The model.
    """

    def __init__(self, llm: Any) -> None:
        super().__init__(llm)
        self.name = getattr(llm, "name", "")
        self._calls: list[ModelCall] = []

    def taken(self) -> list[ModelCall]:
        """Return the calls since the last time, in order."""
        calls, self._calls = self._calls, []
        return calls

    def answered(self, request: LLMRequest, reply: ModelReply | ModelError) -> None:
        """Keep a call."""
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        self._calls.append(call_of(messages, reply))

"""A model whose requests and replies are kept for the inspector, as they were sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from llm_fsm.editor.models import ModelCall
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import form_of, let_go, streamed
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm


class WatchedModel:
    """Passes requests to a model, and keeps them with their replies; for the protocol see `LLM`.

    Args:
        llm: The model.
    """

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.reads_view = bool(getattr(llm, "reads_view", False))
        self.name = getattr(llm, "name", "")
        self._calls: list[ModelCall] = []

    def taken(self) -> list[ModelCall]:
        """Return the calls since the last time, in order."""
        calls, self._calls = self._calls, []
        return calls

    def reply_form(self, model: str | None) -> TakenForm:
        """Return the form of reply that the model takes."""
        return form_of(self.llm, model)

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer the request. Raises ModelError."""
        try:
            reply: ModelReply = await self.llm.complete(request)
        except ModelError as error:
            self._keep(request, str(error))
            raise
        self._keep(request, reply)
        return reply

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | ModelReply, None]:
        """Yield the reply while it arrives. Raises ModelError."""
        try:
            async with aclosing(streamed(self.llm, request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        self._keep(request, item)
                    yield item
        except ModelError as error:
            self._keep(request, str(error))
            raise

    async def aclose(self) -> None:
        """Free the connections of the model."""
        await let_go(self.llm)

    def _keep(self, request: LLMRequest, reply: ModelReply | str) -> None:
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        if isinstance(reply, str):
            self._calls.append(ModelCall(messages=messages, reply="", error=reply))
            return
        call = ModelCall(
            messages=messages,
            reply=reply.text,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            seconds=reply.seconds,
        )
        self._calls.append(call)

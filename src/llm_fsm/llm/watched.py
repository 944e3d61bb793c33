"""A model whose requests and replies something else sees: a record, a screen, an inspector."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM, form_of, let_go, streamed
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm


class WatchedLLM:
    """Passes requests to a model. A subclass sees them in `asked`, and what came of them in
    `answered`.

    Args:
        llm: The model.
    """

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.reads_view = bool(getattr(llm, "reads_view", False))

    def asked(self, request: LLMRequest) -> None:
        """Look at a request before it is sent."""

    def answered(self, request: LLMRequest, reply: ModelReply | ModelError) -> None:
        """Look at the reply to a request, or at its failure."""

    def reply_form(self, model: str | None) -> TakenForm:
        """Return the form of the model's replies."""
        return form_of(self.llm, model)

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer the request. Raises ModelError."""
        self.asked(request)
        try:
            reply = await self.llm.complete(request)
        except ModelError as error:
            self.answered(request, error)
            raise
        self.answered(request, reply)
        return reply

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | ModelReply, None]:
        """Yield the reply while it arrives, if the model can stream. Raises ModelError."""
        self.asked(request)
        try:
            async with aclosing(streamed(self.llm, request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        self.answered(request, item)
                    yield item
        except ModelError as error:
            self.answered(request, error)
            raise

    async def aclose(self) -> None:
        """Free the connections of the model."""
        await let_go(self.llm)

"""`--show-prompt`: what the model reads, call by call, with the size of each section."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

from llm_fsm._text import estimate
from llm_fsm.cli.terminal import console
from llm_fsm.llm.base import LLM, form_of, let_go, streamed
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm
from llm_fsm.turn.prompt.render import sections


class PromptPrinter:
    """A model adapter around another one; it shows each request before it passes it on."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._calls = 0
        self.reads_view = bool(getattr(llm, "reads_view", False))

    def reply_form(self, model: str | None) -> TakenForm:
        """The form of the model's replies."""
        return form_of(self._llm, model)

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Show the request, then ask the model."""
        self._calls += 1
        console.text("\n".join(lines(request, self._calls)), sys.stderr)
        return await self._llm.complete(request)

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """The same while the reply arrives, where the model can do that."""
        self._calls += 1
        console.text("\n".join(lines(request, self._calls)), sys.stderr)
        async with aclosing(streamed(self._llm, request)) as items:
            async for item in items:
                yield item

    async def aclose(self) -> None:
        """Close the model, if it can be closed."""
        await let_go(self._llm)


def lines(request: LLMRequest, call: int) -> Iterator[str]:
    """One request for a reader: sizes first, then the messages as they are sent."""
    whole = "".join(message.content for message in request.messages)
    yield f"── call {call}, state {request.state}: {_size(whole)} ──"
    for message in request.messages:
        yield f"{message.role}: {_size(message.content)}"
        for section in sections(message.content):
            yield f"  {section.name:24} {section.chars:7,} characters  about {section.tokens:6,} tokens"
    if request.schema is not None:
        yield f"reply schema: {_size(request.schema.text)}"
    for message in request.messages:
        yield f"── {message.role} ──"
        yield message.content
    yield f"── end of call {call} ──"


def _size(text: str) -> str:
    return f"{len(text):,} characters, about {estimate(text):,} tokens"

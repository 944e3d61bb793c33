"""`--show-prompt`: what the model reads, call by call, with the size of each section."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from llm_fsm._text import estimate
from llm_fsm.cli.terminal import console
from llm_fsm.llm.watched import WatchedLLM
from llm_fsm.session.messages import LLMRequest
from llm_fsm.turn.prompt.render import sections


class PromptPrinter(WatchedLLM):
    """A model adapter around another one; it shows each request before it passes it on."""

    _calls = 0

    def asked(self, request: LLMRequest) -> None:
        """Show the request."""
        self._calls += 1
        console.text("\n".join(lines(request, self._calls)), sys.stderr)


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

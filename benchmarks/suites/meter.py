"""Count the calls of a model, and their tokens by one tokenizer, whatever its server says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.watched import WatchedLLM
from llm_fsm.session.messages import LLMRequest, ModelReply

_SENT = ("schema", "tool")
"""The ways to ask for the form of a reply in which its schema is sent."""


class Meter(WatchedLLM):
    """Passes requests to a model, and counts.

    Args:
        llm: The model.
        count: Counts the tokens of a text.

    Attributes:
        calls: The replies.
        tokens_in: Tokens of the prompts: messages, tools, and the schema of the reply if it is sent.
        tokens_out: Tokens of the replies, and of their calls of tools.
    """

    def __init__(self, llm: LLM, count: Callable[[str], int]) -> None:
        super().__init__(llm)
        self.calls = 0
        self.tokens_in = 0
        self.tokens_out = 0
        self._count = count

    def answered(self, request: LLMRequest, reply: ModelReply | ModelError) -> None:
        """Count a reply."""
        if isinstance(reply, ModelError):
            return
        self.calls += 1
        self.tokens_in += sum(map(self._count, _sent(request, reply)))
        called = [call.name + call.arguments for call in reply.tool_calls]
        self.tokens_out += sum(map(self._count, [reply.text, *called]))


def _sent(request: LLMRequest, reply: ModelReply) -> Iterator[str]:
    """Yield the texts that the model read."""
    for message in request.messages:
        yield message.content
        yield from (call.name + call.arguments for call in message.tool_calls)
    yield from (tool.text for tool in request.tools)
    if request.schema is not None and reply.mode in _SENT:
        yield request.schema.text

"""The port to models: one question in, one reply out.

An adapter is any object with `complete`. It returns a `ModelReply` or raises `ModelError`
(`retryable` when the same call may succeed later) and nothing else; it neither parses nor
judges the reply. `aclose` frees connections, where there are any.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from llm_fsm.messages import LLMRequest, ModelReply


@runtime_checkable
class LLM(Protocol):
    """What the engine needs of a model."""

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Answer the request. Raises ModelError."""
        ...

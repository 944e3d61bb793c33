"""A model of the engine that calls a chat client, so that its requests are on record, limited and
journalled.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from llm_fsm._async import in_thread, in_words
from llm_fsm._json import JsonDict
from llm_fsm.errors import ConfigurationError, LLMFSMError, ModelError, told
from llm_fsm.llm.base import LLM, let_go
from llm_fsm.llm.clients.messages import LLMResponse, asked_calls, from_engine
from llm_fsm.llm.registry import resolve
from llm_fsm.llm.structured_output import THOUGHT_TOKENS
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolSpec
from llm_fsm.tools.formats import to_openai


class ClientModel:
    """A model of the engine that calls the client from `find` at the time of the call.

    Args:
        find: Returns the chat client, the model of the engine, or the name of one, for a request.
    """

    def __init__(self, find: Callable[[LLMRequest], Any]) -> None:
        self._find = find
        self._named: dict[str, LLM] = {}

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Ask the client.

        Raises:
            ModelError: The client failed.
        """
        client = self._find(request)
        if client is None:
            raise ConfigurationError(
                "no model was given: pass llm= a client, a model or a model's name"
            )
        if isinstance(client, str):
            if client not in self._named:
                self._named[client] = resolve(client, environ=os.environ)
            client = self._named[client]
        if _is_model(client):
            reply: ModelReply = await client.complete(request)
            return reply
        return await _chat(client, request)

    async def aclose(self) -> None:
        """Close the models that were made from names. Clients of the host are the host's to close."""
        named, self._named = self._named, {}
        for model in named.values():
            await let_go(model)


def _is_model(client: Any) -> bool:
    """Return true for a model of the engine. Some of them return the coroutine of another method."""
    complete = getattr(client, "complete", None)
    if inspect.iscoroutinefunction(complete):
        return True
    return callable(complete) and not callable(getattr(client, "chat", None))


async def _chat(client: Any, request: LLMRequest) -> ModelReply:
    if not callable(getattr(client, "chat", None)):
        raise ConfigurationError(f"{type(client).__name__} has no method chat(messages, …)")
    given = dict(request.options)
    if request.tools:
        given["tools"] = _tools(client, request.tools)
    if request.temperature is not None:
        given["temperature"] = request.temperature
    if request.max_tokens is not None:
        # Nobody knows here if the model thinks, so a bound that no author set has room for
        # thoughts.
        more = THOUGHT_TOKENS if "max_tokens" in request.defaults else 0
        given["max_tokens"] = request.max_tokens + more
    messages = [from_engine(message) for message in request.messages]

    async def ask() -> Any:
        if inspect.iscoroutinefunction(client.chat):
            return await client.chat(messages, **given)
        answer = await in_thread(lambda: client.chat(messages, **given), "llm_fsm chat client")
        return await answer if inspect.isawaitable(answer) else answer

    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(request.timeout):
            answer = await ask()
    except TimeoutError as error:
        late = "" if request.timeout is None else f" within {in_words(request.timeout)} s"
        raise ModelError(f"{type(client).__name__} gave no answer{late}", retryable=True) from error
    except LLMFSMError:
        raise
    except Exception as error:
        raise ModelError(f"{type(client).__name__}: {told(error)}") from error
    return read_reply(answer, loop.time() - began)


def _tools(client: Any, specs: tuple[ToolSpec, ...]) -> list[Any]:
    """Return the tools in the client's own form, if it has one."""
    form = getattr(client, "format_tools", None)
    made = form([ClientTool(spec) for spec in specs]) if callable(form) else None
    return made if isinstance(made, list) else [to_openai(spec) for spec in specs]


class ClientTool:
    """A tool as `format_tools` of a client reads it."""

    def __init__(self, spec: ToolSpec) -> None:
        self.name = spec.name
        self.description = spec.description
        self.parameters = dict(spec.parameters)
        self._spec = spec

    def to_openai_schema(self) -> JsonDict:
        """Return the tool as chat completions take it."""
        return to_openai(self._spec)


def read_reply(answer: Any, seconds: float = 0.0) -> ModelReply:
    """Read the answer of a client.

    Raises:
        ModelError: It is neither a text nor a response.
    """
    if isinstance(answer, str):
        answer = LLMResponse(answer)
    text = getattr(answer, "content", None)
    if not isinstance(text, str | None) or not hasattr(answer, "content"):
        raise ModelError(
            f"the client's chat returned {type(answer).__name__} instead of an LLMResponse"
        )
    usage = getattr(answer, "usage", None)
    counts = usage if isinstance(usage, Mapping) else {}
    calls = getattr(answer, "tool_calls", None)
    finish = getattr(answer, "finish_reason", None)
    return ModelReply(
        text=text or "",
        mode="client",
        finish_reason=finish if isinstance(finish, str) else "stop",
        input_tokens=_count(counts.get("prompt_tokens", counts.get("input_tokens"))),
        output_tokens=_count(counts.get("completion_tokens", counts.get("output_tokens"))),
        seconds=seconds,
        cost=float(counts.get("cost") or 0.0),
        tool_calls=asked_calls(calls) if isinstance(calls, list | tuple) else (),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

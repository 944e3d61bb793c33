"""Any provider that litellm knows, as `provider/model`.

litellm takes seconds to import, so a worker thread imports it for the first request. Its retries
are switched off in favour of ours. Its errors become ModelErrors.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from llm_fsm._async import in_words
from llm_fsm._json import JsonDict, JsonMap, TextMap, copied
from llm_fsm._text import without_keys
from llm_fsm.errors import ModelError
from llm_fsm.llm.litellm.lazy_import import import_litellm
from llm_fsm.llm.openai.completion import ReplySettings, error_line, read_completion
from llm_fsm.llm.openai.request import request_fields, signed_keys, takes_marks
from llm_fsm.llm.openai.stream import LAST, Chunks
from llm_fsm.llm.providers import (
    Provider,
    direct,
    has_key,
    keys_of,
    known_provider,
    missing_key,
    owner_of,
    provider_of,
)
from llm_fsm.llm.refusals import advice, kind_of, may_pass, rejects_system
from llm_fsm.llm.retry import Pacing, Retries, RetryPolicy, parse_retry_after
from llm_fsm.llm.structured_output import (
    NO_TOOLS,
    Mode,
    ReplyModes,
    rejects_form,
    rejects_stream,
    rejects_tools,
)
from llm_fsm.session.messages import LLMRequest, ModelReply, TakenForm

_NO_KEY = re.compile(
    r"missing credentials|api_key client option|(?:missing|no) api[ _-]?key", re.IGNORECASE
)
_NO_MODULE = re.compile(r"No module named '[\w.]+'")
_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w+(?:Error|Exception|Timeout)|Timeout)\s*(?::|-)\s*")


class _Arriving:
    """An answer that arrives in chunks.

    litellm gives the finish reason only at the end, and invents one for a stream without it.
    """

    def __init__(self, answer: AsyncIterator[Any], asked: ReplySettings) -> None:
        self.asked = asked
        self.chunks = Chunks(asked)
        self._answer = answer
        self._first = ""

    async def begin(self) -> None:
        """Wait for the first piece of the reply's text."""
        while not self._first and not self.chunks.done:
            self._first = await self._next()

    async def pieces(self, idle_timeout: float) -> AsyncIterator[str]:
        """Yield the pieces of the reply's text. Raises TimeoutError if none arrives for
        `idle_timeout` seconds.
        """
        piece = self._first
        while True:
            if piece:
                yield piece
            if self.chunks.done:
                return
            try:
                async with asyncio.timeout(
                    idle_timeout if self._reason is None else min(idle_timeout, LAST)
                ):
                    piece = await self._next()
            except ModelError:
                raise
            except Exception:  # any error of litellm: a complete reply does not need the rest
                if self._reason is None:
                    raise
                piece = self.chunks.end(self._reason)

    async def close(self) -> None:
        """Close the connection of an answer that was not read to its end, which litellm would keep
        open.
        """
        close = getattr(self._answer, "aclose", None)
        if not self.chunks.done and close is not None:
            await close()

    async def _next(self) -> str:
        try:
            return self.chunks.take((await anext(self._answer)).model_dump())
        except Exception as error:
            # litellm may raise another error instead of ending without a reason
            if any(isinstance(one, StopAsyncIteration) for one in _chain(error)):
                return self.chunks.end(self._reason)
            raise

    @property
    def _reason(self) -> str | None:
        """The reason for the end of the reply; None if the provider has not said one."""
        return getattr(self._answer, "received_finish_reason", None) or getattr(
            self._answer, "intermittent_finish_reason", None
        )


class LiteLLM:
    """A model of a provider; for the protocol see `llm_fsm.llm.base.LLM`.

    `model`: "provider/model" or a name that litellm knows. `api_key`: instead of the provider's
        environment variable.
    `api_base`: another URL of the provider. Both are only for this provider. A request for a model
    of another one does not get them. `timeout`: seconds for one request; None: the limit of
    `retry`.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        api_base: str | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        self._model = self.where = self.name = model
        self._key = api_key
        self._options = {
            name: value
            for name, value in (("api_key", api_key), ("api_base", api_base))
            if value is not None
        }
        policy = retry or RetryPolicy()
        self._retry = policy if timeout is None else replace(policy, attempt_timeout=timeout)
        self._pacing = pacing or Pacing()
        self._modes: dict[str, ReplyModes] = {}

    def reply_form(self, model: str | None) -> TakenForm:
        """Return the form that the provider's strict schemas take, if it is known."""
        provider = direct(provider_of(model or self._model))
        return "list" if provider is None else provider.reply_form

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Ask the provider. It is asked again if that may help, and in a simpler form if it rejects
        the form.
        """
        model = request.model or self._model
        retries = Retries(self._retry, request.timeout, self._pacing)
        litellm, modes = await self._ready(model)
        tools = bool(request.tools)

        async def ask(mode: Mode) -> ModelReply:
            fields = {**_fields(request, mode, model, modes), **self._options_for(model)}
            settings = ReplySettings(model, mode, tools)
            answer = await retries.run(
                lambda seconds: self._send(litellm, fields, settings, seconds)
            )
            if modes.learn_thinking(request, model, answer):
                return await ask(mode)
            return structs.replace(
                answer,
                attempts=retries.sent,
                seconds=retries.seconds,
                native=_signed(answer, model),
            )

        return await modes.settle(
            model, request.schema, ask, tools=tools, signed=signed_keys(request)
        )

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Yield the reply while it arrives. The request is only repeated before the first piece."""
        model = request.model or self._model
        retries = Retries(self._retry, request.timeout, self._pacing)
        litellm, modes = await self._ready(model)
        tools = bool(request.tools)

        async def ask(mode: Mode) -> _Arriving:
            while True:
                fields = {
                    **_fields(request, mode, model, modes),
                    **self._options_for(model),
                    "stream": True,
                }
                if counts := modes.counts:
                    fields["stream_options"] = {"include_usage": True}
                try:
                    return await retries.run(
                        partial(self._open, litellm, fields, ReplySettings(model, mode, tools))
                    )
                except ModelError as error:
                    if not counts or "stream_options" not in str(error.__cause__):
                        raise
                modes.counts = False

        def whole() -> Awaitable[ModelReply]:
            return retries.instead(self.complete(request))

        signed = signed_keys(request)
        arriving = await modes.settle_stream(
            model, request.schema, ask, whole, tools=tools, signed=signed
        )
        if isinstance(arriving, ModelReply):
            yield arriving
            return
        with retries:
            try:
                with self._told(arriving.asked, "stopped in the middle of its reply"):
                    async for piece in arriving.pieces(self._retry.idle_for(request.timeout)):
                        yield piece
            finally:
                await arriving.close()
            gathered = None if arriving.chunks.empty else arriving.chunks.completion()
        if gathered is None:  # litellm raises this for an answer that is no stream
            yield await whole()
            return
        reply = read_completion(
            gathered, arriving.asked, attempts=retries.sent, seconds=retries.seconds
        )
        if modes.learn_thinking(request, model, reply):
            yield await whole()
            return
        cost = _cost(litellm, model, gathered["usage"]) or reply.cost
        yield structs.replace(reply, cost=cost, native=_signed(reply, model))

    def _options_for(self, model: str) -> TextMap:
        return self._options if owner_of(model) == owner_of(self._model) else {}

    async def _ready(self, model: str) -> tuple[Any, ReplyModes]:
        """Return litellm, and the facts about the model's provider. Raises ModelError."""
        provider, options = provider_of(model), self._options_for(model)
        if (
            "api_key" not in options
            and "litellm" not in sys.modules
            and not has_key(provider, os.environ)
        ):
            raise ModelError(f"no key for model {model!r}: {missing_key(provider)}", status=401)
        try:
            litellm = await asyncio.to_thread(import_litellm)
        except ImportError as error:
            raise ModelError(
                f"litellm cannot be imported ({error}); install it again, or give base_url= (--base-url)"
            ) from error
        modes = self._modes.get(provider)
        if modes is None:
            habits = known_provider(provider) or Provider()
            both = habits.schema_beside_tools and "api_base" not in options
            modes = self._modes[provider] = ReplyModes(habits.first_mode, both=both)
        return litellm, modes

    async def _send(
        self, litellm: Any, fields: JsonDict, asked: ReplySettings, seconds: float
    ) -> ModelReply:
        with self._told(asked, f"gave no answer within {in_words(seconds)} s"):
            async with asyncio.timeout(seconds):
                answer = await litellm.acompletion(
                    timeout=seconds, num_retries=0, max_retries=0, **fields
                )
        reply = read_completion(answer.model_dump(), asked)
        cost = getattr(answer, "_hidden_params", {}).get("response_cost")
        return (
            structs.replace(reply, cost=float(cost))
            if isinstance(cost, int | float) and cost > 0
            else reply
        )

    async def _open(
        self, litellm: Any, fields: JsonDict, asked: ReplySettings, seconds: float
    ) -> _Arriving:
        """Return a reply whose first piece has arrived."""
        with self._told(asked, f"gave no answer within {in_words(seconds)} s"):
            async with asyncio.timeout(seconds):
                answer = await litellm.acompletion(
                    timeout=seconds, num_retries=0, max_retries=0, **fields
                )
                arriving = _Arriving(aiter(answer), asked)
                try:
                    await arriving.begin()
                except BaseException:  # a cancelled caller must leave no connection open either
                    await arriving.close()
                    raise
                return arriving

    @contextmanager
    def _told(self, asked: ReplySettings, late: str) -> Iterator[None]:
        """Translate errors of litellm to ModelError; `late`: the message for a time-out."""
        try:
            yield
        except TimeoutError as error:
            raise ModelError(f"{asked.model} {late}", retryable=True) from error
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error, asked) from error

    def _failure(self, error: Exception, asked: ReplySettings) -> ModelError:
        """Translate an error of litellm, with its cause and with `retryable`."""
        model, mode, tools = asked
        away = _unreached(error)
        if away is not None:
            return ModelError(f"{model}: {away}", retryable=True)
        error = getattr(error, "original_exception", None) or error  # of a stream
        # which knows the status of an error in a stream
        inner = error.__cause__ or error.__context__
        codes = (str(getattr(inner, "code", None)), str(getattr(error, "status_code", None)))
        status = next((int(code) for code in codes if re.fullmatch("[45][0-9][0-9]", code)), None)
        provider = provider_of(model)
        full = self._hide(_plain(error), provider)
        said = error_line(full)
        refusal = kind_of(status or 0, full)
        if (status in {401, 403} and refusal is None) or _NO_KEY.search(said):
            return ModelError(
                f"{model}: the key is missing or refused ({said}); {missing_key(provider)}",
                status=status,
            )
        if "LLM Provider NOT provided" in full:
            return ModelError(
                f"litellm knows no model {model!r}; write provider/model, such as openai/gpt-4o-mini, "
                "or give base_url= (--base-url)",
                status=status,
            )
        kind = type(error).__name__
        lacks = _NO_MODULE.search(full)  # litellm needs optional packages for some requests
        rejected = mode != "prompt" if lacks else rejects_form(status or 0, full, mode)
        unstreamed = rejects_stream(status or 0, full)
        if tools and lacks:
            said = f"{said}; litellm needs that package for tools: install it, or give base_url= (--base-url)"
        elif tools and not rejected and rejects_tools(status or 0, full):
            said = f"{said}; {NO_TOOLS}"
        again = (
            kind in {"APIConnectionError", "Timeout"} if status is None else may_pass(status, full)
        )
        unsystemed = not rejected and rejects_system(status or 0, full)
        headers = getattr(error, "litellm_response_headers", None) or {}
        return ModelError(
            f"{model} failed with {kind}: {said}{advice(status or 0, full)}",
            retryable=again and not (rejected or unstreamed or unsystemed or lacks),
            status=status,
            retry_after=parse_retry_after(headers.get("retry-after"), time.time()),
            format_rejected=rejected,
            stream_rejected=unstreamed,
            system_rejected=unsystemed,
            refusal=refusal or "",
        )

    def _hide(self, text: str, provider: str) -> str:
        return without_keys(text, self._key, *map(os.environ.get, keys_of(provider)))


def _unreached(error: Exception) -> str | None:
    """Describe a server that cannot be connected to, and the reason; None for any other error.

    litellm keeps the error of httpx among the causes, and its own message often lacks the URL.
    """
    chain = _chain(error)
    url = None
    for one in chain:
        if type(one).__name__ == "ConnectError":
            with suppress(AttributeError, RuntimeError):  # httpx raises this if it knows no request
                url = one.request.url  # type: ignore[attr-defined]
    if url is None:
        return None
    reason = next(
        (one.strerror for one in chain if isinstance(one, OSError) and one.strerror),
        "no connection",
    )
    return (
        f"cannot connect to {url.scheme}://{url.netloc.decode()}: {reason}; is the server running?"
    )


def _chain(error: BaseException) -> list[BaseException]:
    """Yield the error and its causes."""
    chain = [error]
    while (
        cause := chain[-1].__cause__ or chain[-1].__context__
    ) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _cost(litellm: Any, model: str, usage: JsonMap | None) -> float:
    """Return the cost of a streamed reply in US dollars, by litellm's price list; 0 for an unknown
    model.
    """
    try:
        prices = litellm.cost_per_token(model=model, usage_object=litellm.Usage(**usage or {}))
    except Exception:  # litellm raises a bare one for a model that is not in its list
        return 0.0
    return float(sum(prices))


def _fields(request: LLMRequest, mode: Mode, model: str, modes: ReplyModes) -> JsonDict:
    fields = request_fields(
        request, model, mode, marks=takes_marks(model), modes=modes, by=_author(model)
    )
    fields = dict(copied(fields))  # litellm changes what it is given
    limit = modes.limit_of(request, model)
    if limit is not None:
        fields["max_tokens"] = limit
    if request.tools:
        # else litellm imports the package mcp to look for its own tools
        fields["_skip_mcp_handler"] = True
    return fields


def _author(model: str) -> str:
    return f"litellm {model}"


def _signed(reply: ModelReply, model: str) -> JsonMap:
    """Return what only the provider understands of a reply, with its author."""
    return {**reply.native, "by": _author(model)} if reply.native else {}


def _plain(error: Exception) -> str:
    """Return the message without the class names that litellm puts before it."""
    # of an error in a stream that is a bare text
    body = getattr(error.__cause__ or error.__context__, "body", None)
    text = (
        body
        if isinstance(body, str) and body.strip()
        else str(getattr(error, "message", None) or error)
    )
    while True:
        shorter = _PREFIX.sub("", text, count=1)
        if shorter == text:
            return text
        text = shorter

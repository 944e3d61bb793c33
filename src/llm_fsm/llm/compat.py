"""Any server that speaks OpenAI's chat completions, directly over HTTP.

One request is `POST {base_url}/chat/completions`. The key goes to this address only, redirects are not
followed, and nothing about the conversation but its messages is sent.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import aiohttp
from yarl import URL

from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.chunks import Chunks, EventLines
from llm_fsm.llm.completion import error_line, no_completion, parse_completion, parse_payload, read_completion
from llm_fsm.llm.modes import FORM_STATUS, NO_TOOLS, Mode, ReplyModes, form_json, rejects_form, rejects_tools
from llm_fsm.llm.post import Answer, Post, checked_headers
from llm_fsm.llm.retry import Pacing, Retries, RetryPolicy, is_retryable, parse_retry_after
from llm_fsm.llm.tool_messages import message_json, tool_fields
from llm_fsm.messages import LLMMessage, LLMRequest, ModelReply

MAX_ANSWER = 2 * 2**20
"""Bytes that are read of an answer's body."""

MAX_STREAM = 32 * 2**20
"""Bytes that are read of an answer in chunks, each of which repeats names and ids."""

MAX_ERROR = 2**16
"""Bytes that are read of an error's body."""

_PATH = "/chat/completions"
_PARTING = 0.05
"""Seconds that an answer may take to end after its last chunk."""
_ENCODE = json.JSONEncoder(ensure_ascii=True).encode


class _Asked(NamedTuple):
    """How a reply is asked for."""

    model: str
    mode: Mode
    tools: bool


class _Arriving:
    """An answer that arrives in chunks, or, from a server that does not stream, as a whole."""

    def __init__(self, response: Answer, asked: _Asked) -> None:
        self.asked = asked
        self._response = response
        self._events = EventLines()
        self._chunks = Chunks(asked.mode, tools=asked.tools)
        self._first: list[str] = []
        self._over = False
        self._whole: Any = None
        self._size = 0

    async def begin(self) -> None:
        """Wait for the first piece of the reply's text. Raises ModelError where the answer is none."""
        if self._response.content_type != "text/event-stream":
            self._whole = parse_payload(await self._response.read(MAX_ANSWER))
            self.reply(attempts=0, seconds=0.0)
            return
        while not self._first and not self._over:
            self._first = await self._more()
        if self._over:
            self._chunks.completion()

    async def pieces(self, patience: float) -> AsyncIterator[str]:
        """The pieces of the reply's text; TimeoutError where none comes for `patience` seconds."""
        pieces = self._first
        while True:
            for piece in pieces:
                yield piece
            if self._over or self._whole is not None:
                return
            async with asyncio.timeout(patience):
                pieces = await self._more()

    async def _drain(self) -> None:
        """Read what ends the answer, so that its connection can serve again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PARTING):
                while not self._response.content.at_eof() and await self._response.content.readany():
                    pass

    async def _more(self) -> list[str]:
        """Further pieces of text; with the last of them the answer is over."""
        received = await self._response.content.readany()
        self._size += len(received)
        if self._size > MAX_STREAM:
            raise no_completion(f"more than {MAX_STREAM} bytes")
        events = self._events.feed(received) if received else self._events.end()
        pieces = [piece for data in events if (piece := self._chunks.read(data))]
        self._over = not received or self._chunks.done
        if self._chunks.done:
            await self._drain()
        return pieces

    def reply(self, *, attempts: int, seconds: float) -> ModelReply:
        """The whole answer. Raises ModelError."""
        return read_completion(
            self._chunks.completion() if self._whole is None else self._whole,
            model=self.asked.model,
            mode=self.asked.mode,
            attempts=attempts,
            seconds=seconds,
            tools=self.asked.tools,
        )

    def close(self) -> None:
        """Give the connection back, or close it where the answer was not read to its end."""
        self._response.close()


class CompatLLM:
    """A model behind an OpenAI-compatible address; for the protocol see `llm_fsm.llm.base.LLM`.

    `model` is sent as given, without a leading "openai/". `api_key`: the Bearer token; None sends none.
    `headers`: further headers of each request. `timeout`: seconds for one request, else what `retry` says.
    There is one session per event loop: `aclose` is to be awaited in each.
    Raises ConfigurationError when the address or the key cannot be used.
    """

    keeps_time = True
    """`complete` ends with the request's `timeout` by itself."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        self._model = model
        self._url, self._where = _endpoint(base_url)
        self._key = _checked_key(api_key)
        self._headers = checked_headers(_headers(self._key, headers or {}))
        policy = retry or RetryPolicy()
        self._retry = policy if timeout is None else replace(policy, attempt_timeout=timeout)
        self._pacing = pacing or Pacing()
        self._counts = True
        """Whether the server takes the wish for token counts in a stream, as far as is known."""
        self._modes = ReplyModes(both=self._url.host == "api.openai.com")
        self._posts: WeakKeyDictionary[asyncio.AbstractEventLoop, Post] = WeakKeyDictionary()

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Ask the server: again where that may help, in a plainer form where it rejects the form."""
        model = (request.model or self._model).removeprefix("openai/")
        tools = bool(request.tools)
        retries = Retries(self._retry, request.timeout, self._pacing)
        ask = partial(self._reply, request, retries, model)
        return await self._modes.settle(model, request.schema, ask, tools=tools)

    async def _reply(self, request: LLMRequest, retries: Retries, model: str, mode: Mode) -> ModelReply:
        """One form's reply. What waits for the server holds little: of that, many conversations have much."""
        body, asked = _body(request, model, mode), _Asked(model, mode, bool(request.tools))
        last: ModelError | None = None
        while True:
            seconds = retries.begin(last)
            try:
                return await self._send(body, asked, retries, seconds)
            except ModelError as error:
                last = error
            await retries.pause(last)

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Ask the server for its reply while it makes it; again only as long as nothing of it has come."""
        model = (request.model or self._model).removeprefix("openai/")
        tools = bool(request.tools)
        retries = Retries(self._retry, request.timeout, self._pacing)

        async def ask(mode: Mode) -> _Arriving:
            asked = _Asked(model, mode, tools)
            body = _body(request, model, mode, stream=True, usage=self._counts)
            try:
                return await retries.run(lambda seconds: self._open(body, asked, seconds))
            except ModelError as error:
                if error.status not in FORM_STATUS or "stream_options" not in str(error) or not self._counts:
                    raise
            self._counts = False
            plainer = _body(request, model, mode, stream=True)
            return await retries.run(lambda seconds: self._open(plainer, asked, seconds))

        arriving = await self._modes.settle(model, request.schema, ask, tools=tools)
        try:
            async for piece in arriving.pieces(self._retry.attempt_timeout):
                yield piece
            reply = arriving.reply(attempts=retries.sent, seconds=retries.seconds)
        except TimeoutError as error:
            raise ModelError(f"{self._where} stopped in the middle of its reply", retryable=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ModelError(self._broken(error), retryable=True) from error
        finally:
            arriving.close()
        yield reply

    async def _open(self, body: bytes, asked: _Asked, seconds: float) -> _Arriving:
        """A reply of which the first piece has come."""
        arriving: _Arriving | None = None
        try:
            async with asyncio.timeout(seconds):
                response = await self._post().send(body)
                arriving = _Arriving(response, asked)
                failure = None if response.status == 200 else await self._failure(response, asked)
                if failure is None:
                    await arriving.begin()
        except BaseException as error:
            if arriving is not None:
                arriving.close()
            if isinstance(error, TimeoutError):
                said = f"{self._where} gave no answer within {seconds:.3g} s"
                raise ModelError(said, retryable=True) from error
            if isinstance(error, aiohttp.ClientError | OSError | ValueError):
                raise ModelError(self._broken(error), retryable=True) from error
            raise
        if failure is not None:
            arriving.close()
            raise failure
        return arriving

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        post = self._posts.pop(asyncio.get_running_loop(), None)
        if post is not None:
            await post.close()

    async def _send(self, body: bytes, asked: _Asked, retries: Retries, seconds: float) -> ModelReply:
        try:
            async with asyncio.timeout(seconds):
                response = await self._post().send(body)
                try:
                    if response.status != 200:
                        raise await self._failure(response, asked)
                    answer = await response.read(MAX_ANSWER + 1)
                finally:
                    response.close()
            if len(answer) > MAX_ANSWER:
                raise no_completion(f"more than {MAX_ANSWER} bytes")
        except TimeoutError as error:
            raise ModelError(
                f"{self._where} gave no answer within {seconds:.3g} s", retryable=True
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ModelError(self._broken(error), retryable=True) from error
        return parse_completion(
            answer,
            model=asked.model,
            mode=asked.mode,
            attempts=retries.sent,
            seconds=retries.seconds,
            tools=asked.tools,
        )

    def _post(self) -> Post:
        loop = asyncio.get_running_loop()
        post = self._posts.get(loop)
        if post is None:
            post = self._posts[loop] = Post(self._url, self._headers)
        return post

    async def _failure(self, response: Answer, asked: _Asked) -> ModelError:
        status = response.status
        body = (await response.read(MAX_ERROR)).decode("utf-8", "replace")
        said = self._hide(error_line(body))
        if status in {401, 403}:
            asks = "refuses the key" if self._key else "asks for a key"
            return ModelError(
                f"{self._where} {asks} ({status}: {said}); set LLM_FSM_API_KEY, or give api_key= in Python",
                status=status,
            )
        if 300 <= status < 400:
            target = self._hide(response.headers.get("Location", "nowhere"))
            said = f"a redirect to {target}, which is not followed; use the final address as base_url"
        elif status == 404:
            said = f"{said}; is the model's name right, and does the address end as it should (often /v1)?"
        rejected = rejects_form(status, body, asked.mode)
        if asked.tools and not rejected and rejects_tools(status, body):
            said = f"{said}; {NO_TOOLS}"
        return ModelError(
            f"{self._where} answered {status}: {said}",
            retryable=is_retryable(status) and not rejected,
            status=status,
            retry_after=parse_retry_after(response.headers.get("Retry-After"), time.time()),
            format_rejected=rejected,
        )

    def _broken(self, error: Exception) -> str:
        if isinstance(error, aiohttp.ClientConnectorError):
            return f"cannot connect to {self._where}: {error.strerror or error}; is the server running?"
        reason = self._hide(str(error)) or type(error).__name__
        return f"the connection to {self._where} broke: {reason}"

    def _hide(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _body(request: LLMRequest, model: str, mode: Mode, *, stream: bool = False, usage: bool = False) -> bytes:
    """The request's JSON. It is put together by hand because the schema's text is made already."""
    messages = ",".join([_message(message) for message in request.messages])
    limits = "" if request.temperature is None else f',"temperature":{_ENCODE(request.temperature)}'
    if request.max_tokens is not None:
        limits += f',"max_tokens":{_ENCODE(request.max_tokens)}'
    form = form_json(mode, request.schema)
    if request.tools:
        form += f",{_ENCODE(tool_fields(request))[1:-1]}"
    if stream:
        form += ',"stream":true'
    if usage:
        form += ',"stream_options":{"include_usage":true}'
    return f'{{"model":{_ENCODE(model)},"messages":[{messages}]{limits}{form}}}'.encode("ascii")


def _message(message: LLMMessage) -> str:
    if message.role == "system":
        return _system(message.content)
    if message.tool_calls or message.tool_call_id:
        return _ENCODE(message_json(message))
    return f'{{"role":"{message.role}","content":{_ENCODE(message.content)}}}'


@lru_cache(maxsize=64)
def _system(content: str) -> str:
    """A system message: the longest one, and the same in every turn of a machine."""
    return f'{{"role":"system","content":{_ENCODE(content)}}}'


def _endpoint(base_url: str) -> tuple[URL, str]:
    """The address to post to, and the one to show."""
    fault = f"base_url {base_url!r} is no http:// or https:// address, such as http://localhost:11434/v1"
    try:
        parts = urlsplit(base_url.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ConfigurationError(fault)
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError("base_url holds a user or password; give the key as LLM_FSM_API_KEY")
        path = parts.path.rstrip("/").removesuffix(_PATH)
        url = URL(urlunsplit((parts.scheme, parts.netloc, path + _PATH, parts.query, "")))
    except ValueError as error:
        raise ConfigurationError(f"{fault} ({error})") from error
    return url, f"{parts.scheme}://{parts.netloc}{path}"


def _checked_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            "the key (LLM_FSM_API_KEY, in Python api_key=) holds characters that no header can carry"
        )
    return key


def _headers(key: str, further: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "llm-fsm"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return {**headers, **further}

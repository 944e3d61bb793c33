"""Any server that speaks OpenAI's chat completions, directly over HTTP.

One request is `POST {base_url}/chat/completions`. The key goes to this address only, redirects are not
followed, and nothing about the conversation but its messages is sent.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import aiohttp
from yarl import URL

from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.completion import error_line, no_completion, parse_completion
from llm_fsm.llm.modes import NO_TOOLS, Mode, ReplyModes, form_json, rejects_form, rejects_tools
from llm_fsm.llm.retry import Pacing, Retries, RetryPolicy, is_retryable, parse_retry_after
from llm_fsm.llm.tool_messages import message_json, tool_fields
from llm_fsm.messages import LLMMessage, LLMRequest, ModelReply

MAX_ANSWER = 2 * 2**20
"""Bytes that are read of an answer's body."""

MAX_ERROR = 2**16
"""Bytes that are read of an error's body."""

_PATH = "/chat/completions"
_LARGE = 2**20  # aiohttp warns about larger bodies that are given as bytes
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)
_ENCODE = json.JSONEncoder(ensure_ascii=True).encode


class _Asked(NamedTuple):
    """How a reply is asked for."""

    model: str
    mode: Mode
    tools: bool


class CompatLLM:
    """A model behind an OpenAI-compatible address; for the protocol see `llm_fsm.llm.base.LLM`.

    `model` is sent as given, without a leading "openai/". `api_key`: the Bearer token; None sends none.
    `headers`: further headers of each request. `timeout`: seconds for one request, else what `retry` says.
    There is one session per event loop: `aclose` is to be awaited in each.
    Raises ConfigurationError when the address or the key cannot be used.
    """

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
        self._headers = _headers(self._key, headers or {})
        policy = retry or RetryPolicy()
        self._retry = policy if timeout is None else replace(policy, attempt_timeout=timeout)
        self._pacing = pacing or Pacing()
        self._modes = ReplyModes(both=self._url.host == "api.openai.com")
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Ask the server: again where that may help, in a plainer form where it rejects the form."""
        model = (request.model or self._model).removeprefix("openai/")
        tools = bool(request.tools)
        retries = Retries(self._retry, request.timeout, self._pacing)

        async def ask(mode: Mode) -> ModelReply:
            body, asked = _body(request, model, mode), _Asked(model, mode, tools)
            return await retries.run(lambda seconds: self._send(body, asked, retries, seconds))

        return await self._modes.settle(model, request.schema, ask, tools=tools)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _send(self, body: bytes, asked: _Asked, retries: Retries, seconds: float) -> ModelReply:
        data = body if len(body) < _LARGE else io.BytesIO(body)
        try:
            async with (
                asyncio.timeout(seconds),
                self._session().post(self._url, data=data, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise await self._failure(response, asked)
                answer = await _read(response, MAX_ANSWER + 1)
                if len(answer) > MAX_ANSWER:
                    response.close()
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

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=_NO_TIMEOUT,
            )
        return session

    async def _failure(self, response: aiohttp.ClientResponse, asked: _Asked) -> ModelError:
        status = response.status
        body = (await _read(response, MAX_ERROR)).decode("utf-8", "replace")
        if len(body) >= MAX_ERROR:
            response.close()
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


def _body(request: LLMRequest, model: str, mode: Mode) -> bytes:
    """The request's JSON. It is put together by hand because the schema's text is made already."""
    messages = ",".join([_message(message) for message in request.messages])
    limits = "" if request.temperature is None else f',"temperature":{_ENCODE(request.temperature)}'
    if request.max_tokens is not None:
        limits += f',"max_tokens":{_ENCODE(request.max_tokens)}'
    form = form_json(mode, request.schema)
    if request.tools:
        form += f",{_ENCODE(tool_fields(request))[1:-1]}"
    return f'{{"model":{_ENCODE(model)},"messages":[{messages}]{limits}{form}}}'.encode("ascii")


def _message(message: LLMMessage) -> str:
    if message.tool_calls or message.tool_call_id:
        return _ENCODE(message_json(message))
    return f'{{"role":"{message.role}","content":{_ENCODE(message.content)}}}'


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, or its beginning of at least `limit` bytes when it is longer."""
    parts, size = [], 0
    while size < limit and not response.content.at_eof():
        parts.append(await response.content.readany())
        size += len(parts[-1])
    return b"".join(parts)


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

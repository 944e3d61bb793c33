"""Any server with OpenAI's chat completions API, directly over HTTP.

One request is `POST {base_url}/chat/completions`. The key only goes to this URL, and redirects are
not followed. Of the conversation, only its messages are sent. The environment names the proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import structs
from yarl import URL

from llm_fsm._async import in_words
from llm_fsm._json import JsonDict, TextMap, in_bytes, in_unicode
from llm_fsm._text import without_keys
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.openai.completion import (
    SOMEBODY,
    ReplySettings,
    error_line,
    no_completion,
    read_completion,
    rejected_words,
)
from llm_fsm.llm.openai.connection import Closed, HttpAnswer, Post, checked_headers, proxy_for
from llm_fsm.llm.openai.request import request_fields, signed_keys, takes_marks
from llm_fsm.llm.openai.response import MAX_ANSWER, ArrivingReply
from llm_fsm.llm.openai.stream import gathered
from llm_fsm.llm.prices import cost_of
from llm_fsm.llm.providers import LOCAL, UNKNOWN, direct, is_local, provider_of
from llm_fsm.llm.refusals import FORM_STATUS, advice, kind_of, may_pass, rejects_system
from llm_fsm.llm.retry import Pacing, Retries, RetryPolicy, is_retryable, parse_retry_after
from llm_fsm.llm.structured_output import (
    NO_TOOLS,
    Mode,
    ReplyModes,
    rejects_form,
    rejects_limit,
    rejects_stream,
    rejects_tools,
    thinks_aloud,
)
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplySchema, TakenForm
from llm_fsm.session.reply_schema import narrowed, with_list_limits

MAX_ERROR = 2**16
"""The most bytes of an error's body that are read."""

T = TypeVar("T")
_PATH = "/chat/completions"
_LIMIT, _NEWER_LIMIT = "max_tokens", "max_completion_tokens"
_FAILURES = (aiohttp.ClientError, OSError, ValueError)
"""The errors of requests and of reading their answers. A time-out is an OSError."""


class CompatLLM:
    """A model behind an OpenAI-compatible URL; for the protocol see `llm_fsm.llm.base.LLM`.

    `model` is sent as given, without the prefix of `provider`. `api_key`: the Bearer token; None
    sends none. `headers`: further headers of each request. `timeout`: seconds for one request;
    None: the limit of `retry`. `cache_marks`: mark the parts to cache (`cache_control`), for
    servers that forward that to Claude's providers. `provider`: a name in `llm_fsm.llm.providers`,
    whose features and prices are known. There is one session for each event loop, so await `aclose`
    in each. Raises ConfigurationError if the URL, its proxy or the key cannot be used.
    """

    keeps_time = True
    """`complete` ends with the request's `timeout` by itself; `stream` ends so long after its last
    sign of life.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        headers: TextMap | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        pacing: Pacing | None = None,
        cache_marks: bool = False,
        provider: str = "",
    ) -> None:
        self._model = self.name = model
        self._marks = cache_marks or (provider == "openrouter" and takes_marks(model))
        self._provider = provider
        self._url, self.where = _endpoint(base_url)
        self._habits = direct(provider) or (LOCAL if is_local(self._url.host or "") else UNKNOWN)
        # Only llama.cpp's server tells it. Named local servers are others.
        self._tells_progress = self._habits is LOCAL
        self._proxy = proxy_for(self._url)
        if self._proxy is not None:
            self.where += f" (through the proxy {self._proxy.origin()})"
        self._key_variable = next(iter(self._habits.keys), "LLM_FSM_API_KEY")
        self._key = _checked_key(api_key)
        self._headers = checked_headers(_headers(self._key, headers or {}))
        policy = retry or RetryPolicy()
        self._retry = policy if timeout is None else replace(policy, attempt_timeout=timeout)
        self._pacing = pacing or Pacing()
        both = self._habits.schema_beside_tools or self._url.host == "api.openai.com"
        self._modes = ReplyModes(self._habits.first_mode, both=both)
        self._posts: dict[asyncio.AbstractEventLoop, Post] = {}

    def reply_form(self, _model: str | None) -> TakenForm:
        """Return the form that the provider's strict schemas take."""
        return self._habits.reply_form

    def complete(self, request: LLMRequest) -> Coroutine[Any, Any, ModelReply]:
        """Ask the server. It is asked again if that may help, and in a simpler form if it rejects
        the form.
        """
        model = self._name(request)
        tools = bool(request.tools)
        retries = Retries(self._retry, request.timeout, self._pacing)
        ask = partial(self._reply, request, retries, model)
        return self._modes.settle(
            model, request.schema, ask, tools=tools, signed=signed_keys(request)
        )

    async def _reply(
        self, request: LLMRequest, retries: Retries, model: str, mode: Mode
    ) -> ModelReply:
        send = partial(self._send, ReplySettings(model, mode, bool(request.tools)), retries)
        reply = await self._ask(request, retries, model, mode, send)
        if self._modes.learn_thinking(request, model, reply):
            reply = await self._ask(request, retries, model, mode, send)
        return self._priced(reply, model)

    async def _ask(
        self,
        request: LLMRequest,
        retries: Retries,
        model: str,
        mode: Mode,
        send: Callable[[bytes, float], Awaitable[T]],
        *,
        stream: bool = False,
    ) -> T:
        """Ask for a reply in one form. Ask once more at once if the server names a better setting."""
        self._check_options(request)
        if request.schema is not None:
            request = structs.replace(request, schema=self._fitting(request, request.schema, model))
        fields = request_fields(
            request, model, mode, marks=self._marks, modes=self._modes, by=self._author(model)
        )
        while True:
            limit, counts = self._limit(request, model), stream and self._modes.counts
            more: JsonDict = dict(limit)
            if stream:
                more["stream"] = True
            if counts:
                more["stream_options"] = {"include_usage": True}
            progress = stream and self._tells_progress and request.reading is not None
            if progress:
                more["return_progress"] = True
            try:
                return await retries.run(partial(send, in_bytes({**fields, **more})))
            except ModelError as error:
                if progress and error.status in FORM_STATUS and "return_progress" in str(error):
                    self._tells_progress = False
                elif not self._learnt(error, request, model, limit, counts=counts):
                    raise

    def _fitting(self, request: LLMRequest, schema: ReplySchema, model: str) -> ReplySchema:
        """Return a schema as this server takes it: of what this reply can pick, or with limits of
        its lists.
        """
        if self._habits.narrow:
            if not request.targets:
                return schema
            return narrowed(schema, request.targets, request.clearable, request.asked)
        # OpenAI's fine-tuned models take no limits of lists.
        limits = self._habits.list_limits and not model.startswith("ft:")
        return with_list_limits(schema) if limits else schema

    def _check_options(self, request: LLMRequest) -> None:
        """Refuse further settings that no server can read, such as a class as the form of a reply."""
        if not request.options:
            return
        try:
            in_unicode(request.options)  # strictly: `in_bytes` would write a set as a list
        except (TypeError, RecursionError) as error:
            names = ", ".join(request.options)
            raise ModelError(
                f"{self.where} takes settings as JSON; one of {names} is none: {error}"
            ) from error

    def _name(self, request: LLMRequest) -> str:
        """Return the model's name as its provider knows it."""
        name = request.model or self._model
        _, slash, rest = name.partition("/")
        return rest if slash and self._provider and provider_of(name) == self._provider else name

    def _priced(self, reply: ModelReply, model: str) -> ModelReply:
        """Return the reply with its author, and its cost by the price list if the provider reports
        none.
        """
        if reply.native:
            reply = structs.replace(reply, native={**reply.native, "by": self._author(model)})
        if reply.cost or not self._habits.prices:
            return reply
        cost = cost_of(
            self._habits.prices, model, reply.input_tokens, reply.output_tokens, reply.cached_tokens
        )
        return structs.replace(reply, cost=cost) if cost else reply

    def _author(self, model: str) -> str:
        return f"{self._url.origin()} {model}"

    def _limit(self, request: LLMRequest, model: str) -> Mapping[str, int]:
        """Return the field that has the limit of tokens; {} if there is none."""
        most = self._modes.limit_of(request, model)
        if most is None:
            return {}
        is_newer = model in self._modes.renamed or (
            self._provider == "openai" and thinks_aloud(model)
        )
        return {_NEWER_LIMIT if is_newer else _LIMIT: most}

    def _learnt(
        self,
        error: ModelError,
        request: LLMRequest,
        model: str,
        limit: Mapping[str, int],
        *,
        counts: bool,
    ) -> bool:
        """Return true if an error names a better setting, and remember that.

        `limit`, `counts`: the settings of this request, because other requests may have changed
        them since.
        """
        if error.status not in FORM_STATUS:
            return False
        if counts and "stream_options" in str(error):
            self._modes.counts = False
            return True
        if _LIMIT in limit and _NEWER_LIMIT in str(error):
            self._modes.renamed.add(model)
            return True
        if limit and "max_tokens" in request.defaults and rejects_limit(error):
            self._modes.unlimited.add(model)
            return True
        return False

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """Yield the reply while it arrives. The request is only repeated before the first piece."""
        model = self._name(request)
        tools = bool(request.tools)
        retries = Retries(self._retry, request.timeout, self._pacing)

        def ask(mode: Mode) -> Awaitable[ArrivingReply]:
            begin = partial(self._open, ReplySettings(model, mode, tools), request.reading)
            return self._ask(request, retries, model, mode, begin, stream=True)

        def whole() -> Awaitable[ModelReply]:
            return retries.instead(self.complete(request))

        signed = signed_keys(request)
        arriving = await self._modes.settle_stream(
            model, request.schema, ask, whole, tools=tools, signed=signed
        )
        if isinstance(arriving, ModelReply):
            yield arriving
            return
        with retries:
            try:
                async for piece in arriving.pieces(self._retry.idle_for(request.timeout)):
                    yield piece
                reply = self._priced(
                    arriving.reply(attempts=retries.sent, seconds=retries.seconds), model
                )
            except ModelError as error:
                self._named(error, arriving.status)
                raise
            except _FAILURES as error:
                raise self._broken(error, "stopped in the middle of its reply", arriving) from error
            finally:
                arriving.close()
        if self._modes.learn_thinking(request, model, reply):
            reply = await whole()
        yield reply

    async def _open(
        self,
        asked: ReplySettings,
        reading: Callable[[int, int], None] | None,
        body: bytes,
        seconds: float,
    ) -> ArrivingReply:
        """Return a reply whose first piece has arrived."""
        arriving = None
        try:
            async with asyncio.timeout(seconds) as timer:
                response = await self._post().send(body)
                arriving = ArrivingReply(response, asked)
                if _is_good(response.status):
                    await arriving.begin(partial(_postpone, timer, seconds), reading)
                else:
                    arriving.take(await self._rejected(response, asked))
        except BaseException as error:
            if arriving is not None:
                arriving.close()
            if arriving is not None and isinstance(error, ModelError):
                self._named(error, arriving.status, asked)
            if isinstance(error, _FAILURES):
                raise self._broken(
                    error, f"gave no answer within {in_words(seconds)} s", arriving
                ) from error
            raise
        return arriving

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        post = self._posts.pop(asyncio.get_running_loop(), None)
        if post is not None:
            await post.close()

    async def _send(
        self, asked: ReplySettings, retries: Retries, body: bytes, seconds: float
    ) -> ModelReply:
        try:
            async with asyncio.timeout(seconds):
                response = await self._post().send(body)
                try:
                    if _is_good(response.status):
                        answer = await response.read(MAX_ANSWER + 1)
                    else:
                        rejected = await self._rejected(response, asked)
                finally:
                    response.close()
        except _FAILURES as error:
            raise self._broken(error, f"gave no answer within {in_words(seconds)} s") from error
        try:
            if _is_good(response.status) and len(answer) > MAX_ANSWER:
                raise no_completion(f"more than {MAX_ANSWER} bytes")
            payload = gathered(answer) if _is_good(response.status) else rejected
            return read_completion(payload, asked, attempts=retries.sent, seconds=retries.seconds)
        except ModelError as error:
            self._named(error, response.status, asked)
            raise

    def _post(self) -> Post:
        loop = asyncio.get_running_loop()
        post = self._posts.get(loop)
        if post is None:
            post = self._posts[loop] = Post(self._url, self._headers, self._proxy)
        return post

    async def _rejected(self, response: HttpAnswer, asked: ReplySettings) -> Any:
        """Return the completion in an answer with an error status. Raises ModelError if there is
        none.
        """
        body = (await response.read(MAX_ERROR)).decode("utf-8", "replace")
        found = rejected_words(body) if response.status == 400 else None
        if found is None:
            raise self._failure(response, body, asked)
        return found

    def _failure(self, response: HttpAnswer, body: str, asked: ReplySettings) -> ModelError:
        status = response.status
        said = self._hide(error_line(body))
        kind = kind_of(status, body)
        if status in {401, 403} and kind is None:
            asks = "refuses the key" if self._key else "asks for a key"
            return ModelError(
                f"{self.where} {asks} ({status}: {said}); set {self._key_variable}, or give api_key= in Python",
                status=status,
            )
        if 300 <= status < 400:
            target = self._hide(response.headers.get("Location", "nowhere"))
            said = (
                f"a redirect to {target}, which is not followed; use the final address as base_url"
            )
        elif status == 404:
            said = f"{said}; is the model's name right, and does the address end as it should (often /v1)?"
        rejected, unstreamed = rejects_form(status, body, asked.mode), rejects_stream(status, body)
        if asked.tools and not rejected and rejects_tools(status, body):
            said = f"{said}; {NO_TOOLS}"
        unsystemed = not rejected and rejects_system(status, body)
        return ModelError(
            f"{self.where} answered {status}: {said}{advice(status, body)}",
            retryable=may_pass(status, body) and not (rejected or unstreamed or unsystemed),
            status=status,
            retry_after=parse_retry_after(response.headers.get("Retry-After"), time.time()),
            format_rejected=rejected,
            stream_rejected=unstreamed,
            system_rejected=unsystemed,
            refusal=kind or "",
        )

    def _broken(
        self, error: Exception, late: str, arriving: ArrivingReply | None = None
    ) -> ModelError:
        """Return the error for an incomplete answer; `late` is the message for a time-out."""
        told = None if arriving is None else arriving.complaint
        if told is not None:
            return self._named(told)
        match error:
            case TimeoutError():
                return ModelError(f"{self.where} {late}", retryable=True)
            case Closed():
                return ModelError(
                    f"the connection to {self.where} was closed on this side, before the reply was whole"
                )
            case aiohttp.ClientHttpProxyError():
                said = f"cannot connect to {self.where}, which answered {error.status}: {error.message}"
                return ModelError(said, retryable=is_retryable(error.status), status=error.status)
            case aiohttp.ClientConnectorError():
                said = f"cannot connect to {self.where}: {error.strerror or error}; is the server running?"
                return ModelError(said, retryable=True)
        cause = error.__cause__  # its own text has a status that no server sent
        said = cause.message.rstrip(".") if isinstance(cause, HttpProcessingError) else str(error)
        reason = " ".join(self._hide(said).split()) or type(error).__name__
        return ModelError(f"the connection to {self.where} broke: {reason}", retryable=True)

    def _named(
        self, error: ModelError, status: int = 200, asked: ReplySettings | None = None
    ) -> ModelError:
        """Return the error of an answer, with its URL, its status, and the rejected feature."""
        said = str(error)
        if said.startswith(SOMEBODY):
            said = said.removeprefix(SOMEBODY)
            if status != 200:
                said = said.replace(" answered 200 with", f" answered {status} with", 1)
            error.args = (self.where + self._hide(said),)
            # a gateway that had already begun its answer
            if asked is not None and error.status is not None:
                error.format_rejected = rejects_form(error.status, said, asked.mode)
                error.stream_rejected = rejects_stream(error.status, said)
                error.system_rejected = not error.format_rejected and rejects_system(
                    error.status, said
                )
        return error

    def _hide(self, text: str) -> str:
        return without_keys(text, self._key)


def _postpone(timer: asyncio.Timeout, seconds: float) -> None:
    """Let a time-out begin anew."""
    timer.reschedule(asyncio.get_running_loop().time() + seconds)


def _endpoint(base_url: str) -> tuple[URL, str]:
    """Return the URL to post to, and the one to show."""
    fault = f"base_url {base_url!r} is no http:// or https:// address, such as http://localhost:11434/v1"
    try:
        parts = urlsplit(base_url.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ConfigurationError(fault)
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError(
                "base_url holds a user or password; give the key as LLM_FSM_API_KEY"
            )
        path = parts.path.rstrip("/").removesuffix(_PATH)
        url = URL(urlunsplit((parts.scheme, parts.netloc, path + _PATH, parts.query, "")))
    except ValueError as error:
        raise ConfigurationError(f"{fault} ({error})") from error
    return url, f"{parts.scheme}://{parts.netloc}{path}"


def _is_good(status: int) -> bool:
    """Return true if an answer should hold a completion. Some servers answer POST with 201."""
    return 200 <= status < 300 and status != 204


def _checked_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            "the key (LLM_FSM_API_KEY, in Python api_key=) holds characters that no header can carry"
        )
    return key


def _headers(key: str, further: TextMap) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "llm-fsm",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return {**headers, **further}

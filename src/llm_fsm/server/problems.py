"""Problem documents (RFC 9457): one table, and the rows that errors of the package belong to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from llm_fsm import errors
from llm_fsm._json import JsonDict, JsonMap, TextMap, pointer_of
from llm_fsm.server.faults import PREFIX, report

MEDIA_TYPE = "application/problem+json"
BUSY_SECONDS = 5
CHANNELS = "/channels/"
"""The beginning of paths of mounted channels. Their senders have no tokens, and sign in ways of
their own.
"""


class Kind(NamedTuple):
    """A row of the table."""

    status: int
    title: str
    when: str


KINDS: Mapping[str, Kind] = {
    "bad-request": Kind(400, "Bad request", "the body is not JSON, or a header cannot be read"),
    "unauthorized": Kind(401, "A token is needed", "there is no token, or one that is not known"),
    "forbidden": Kind(
        403,
        "Not allowed",
        "the Host or Origin is not one of the server's, or the token may not do it",
    ),
    "not-found": Kind(
        404,
        "Not found",
        "there is no such conversation, definition or page, or it is another token's",
    ),
    "method-not-allowed": Kind(
        405, "Method not allowed", "the address exists and does not take this method"
    ),
    "not-acceptable": Kind(
        406, "Not acceptable", "the Accept header excludes every type that the address gives"
    ),
    "timeout": Kind(408, "Too slow", "the body did not arrive in time"),
    "conflict": Kind(
        409,
        "Conflict",
        "it does not fit the state of the conversation, or its key was used already",
    ),
    "cancelled": Kind(409, "Stopped on request", "somebody stopped the turn of this message"),
    "ended": Kind(410, "The conversation has ended", "a message to a conversation that is over"),
    "too-large": Kind(413, "Too large", "the body is larger than the server takes"),
    "unsupported-media-type": Kind(
        415, "Not JSON", "the Content-Type of the body is not application/json"
    ),
    "invalid": Kind(
        422, "Not valid", "a value does not fit; `errors` says where, with JSON pointers"
    ),
    "too-many-requests": Kind(
        429, "Too many requests", "a limit of requests, bytes or streams is reached"
    ),
    "model-unavailable": Kind(
        503, "The model does not answer", "the provider is down, refuses, or is not set up"
    ),
    "store-unavailable": Kind(
        503, "The store is away", "the conversations cannot be read or written"
    ),
    "host-failed": Kind(
        503, "The host's code failed", "a handler or tool of the host stopped the turn"
    ),
    "internal": Kind(
        500, "A fault of the server", "never, or it is a fault of ours: please report it"
    ),
    "unavailable": Kind(
        503, "Not available", "the server ends, or lacks a program or setting that is needed"
    ),
}
"""The last part of `type` to its meaning. A test compares the table of docs/server.md with this
one.
"""


class Problem(Exception):
    """A problem of one row of the table. `extra` are further members of the document."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        retry_after: float | None = None,
        extra: JsonMap | None = None,
        headers: TextMap | None = None,
    ) -> None:
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.extra = extra or {}
        self.headers = headers or {}
        super().__init__(detail)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.kind].status

    def document(self) -> JsonDict:
        """Return the problem document."""
        return {
            "type": type_of(self.kind),
            "title": KINDS[self.kind].title,
            "status": self.status,
            "detail": self.detail,
            **({} if self.wait is None else {"retry_after": self.wait}),
            **self.extra,
        }

    @property
    def wait(self) -> int | None:
        """Seconds after which the request may succeed; None: nobody knows."""
        if self.retry_after is None and self.status != 503:
            return None
        return max(1, math.ceil(self.retry_after or BUSY_SECONDS))

    def for_openai(self) -> JsonDict:
        """Return the problem document, with the member `error` for clients of the OpenAI API."""
        error = {"message": self.detail, "type": self.kind, "code": self.kind, "param": None}
        return {**self.document(), "error": error}

    def response(self, scope: Scope | None = None) -> Response:
        """Return the HTTP response to a request. `scope`: of the request, whose API may have a form
        of its own.
        """
        headers = dict(self.headers)
        if self.wait is not None:
            headers["Retry-After"] = str(self.wait)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        is_openai = scope is not None and path_of(scope).startswith("/v1/")
        document = self.for_openai() if is_openai else self.document()
        return Response(json.dumps(document), self.status, headers, MEDIA_TYPE)


def path_of(scope: Scope) -> str:
    """Return the path of a request, also in a mounted application."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path or "/"


def type_of(kind: str) -> str:
    """Return the `type` of a row, which never changes."""
    return f"urn:llm-fsm:problem:{kind}"


class _Row(NamedTuple):
    """The problem of a class of errors. `says` None: the error's own words are for the caller."""

    kind: str
    error: type[Exception]
    says: str | None = None


_LOGGED = "the operator finds the reason in the log"
_ROWS: Sequence[_Row] = (
    _Row("not-found", errors.ConversationNotFound, "there is no conversation of this id"),
    _Row("ended", errors.ConversationEnded),
    _Row("conflict", errors.ConversationConflict),
    _Row("model-unavailable", errors.ModelError, f"the model did not answer; {_LOGGED}"),
    _Row("model-unavailable", errors.ReplyError, f"the model's reply cannot be used; {_LOGGED}"),
    _Row("model-unavailable", errors.ConfigurationError, f"the model is not set up; {_LOGGED}"),
    _Row("host-failed", errors.HandlerError, f"a function of the host stopped the turn; {_LOGGED}"),
    _Row(
        "store-unavailable",
        errors.UnreadableError,
        f"the conversation is damaged in the store; {_LOGGED}",
    ),
    _Row("store-unavailable", errors.StoreError, f"the store did not answer; {_LOGGED}"),
    _Row("unavailable", errors.DefinitionError, f"the definition cannot be used; {_LOGGED}"),
)
"""Classes to their problems; the first that fits. Words of providers, stores and hosts name what is
inside.
"""
_INTERNAL = _Row("internal", Exception, f"this is a fault of the server; {_LOGGED}")
_INVALID = _Row("invalid", ValueError)


def problem_of(error: Exception, *, in_own_words: bool = False) -> Problem:
    """Return the problem for an error, with nothing of the inside. What it leaves out goes to the
    log.

    Args:
        error: The error.
        in_own_words: True if the caller is the operator, who may read the words of all errors but
            faults of the server.
    """
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _problem_of_request(error)
        case HTTPException():
            return _problem_of_status(error)
    row = _row_of(error)
    wait = error.retry_after if isinstance(error, errors.ModelError) else None
    if row.says is None or (in_own_words and row is not _INTERNAL):
        return Problem(row.kind, _without_prefix(str(error)), retry_after=wait)
    if row.kind != "not-found":
        report(row.kind, error, with_traceback=row is _INTERNAL)
    return Problem(row.kind, row.says, retry_after=wait)


def problem_in(scope: Scope, error: Exception) -> Problem:
    """Return the problem for an error of a request.

    A channel is code of the host, so what fails in it is no fault of the server.
    """
    problem = problem_of(error)
    if problem.kind == "internal" and path_of(scope).startswith(CHANNELS):
        return Problem("host-failed", f"the channel failed; {_LOGGED}")
    return problem


def answer_errors(
    app: FastAPI, problem: Callable[[Scope, Exception], Problem] = problem_in
) -> None:
    """Let an application answer every error by a problem document. `problem`: makes it."""

    async def answer(request: Request, error: Exception) -> Response:
        return problem(request.scope, error).response(request.scope)

    # the guard answers all others, with its headers
    for kind in (Problem, errors.LLMFSMError, ValueError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _row_of(error: Exception) -> _Row:
    for row in _ROWS:
        if isinstance(error, row.error):
            return row
    # A library's own kind of ValueError is no message to a caller: it may quote anything.
    is_plain = type(error) is ValueError
    is_ours = isinstance(error, ValueError) and type(error).__module__.startswith("llm_fsm.")
    return _INVALID if is_plain or is_ours else _INTERNAL


def _without_prefix(words: str) -> str:
    prefix = PREFIX.get()
    return words.replace(prefix, "") if prefix else words


def _problem_of_request(error: RequestValidationError) -> Problem:
    """Return the problem of a request that does not fit its model."""
    found = error.errors()
    broken = next((item for item in found if item["type"] == "json_invalid"), None)
    if broken is not None:
        reason = broken.get("ctx", {}).get("error", "it cannot be read")
        return Problem("bad-request", f"the body is not JSON: {reason}")
    told = [
        {
            "pointer": pointer_of(item["loc"][1:]),
            "in": str(item["loc"][0]),
            "detail": str(item["msg"]),
        }
        for item in found
    ]
    where = "; ".join(
        f"{item['in']} {item['pointer']}: {item['detail']}".replace("  ", " ") for item in told[:3]
    )
    return Problem("invalid", where, extra={"errors": told})


def _problem_of_status(error: HTTPException) -> Problem:
    """Return the problem for an error of the framework."""
    kind = next(
        (kind for kind, row in KINDS.items() if row.status == error.status_code), "bad-request"
    )
    return Problem(kind, str(error.detail), headers=error.headers)

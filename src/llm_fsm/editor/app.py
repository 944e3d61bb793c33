"""The application of the studio: its routes behind the guard of the server."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from llm_fsm import __version__
from llm_fsm._json import JsonDict
from llm_fsm._text import sha256_of
from llm_fsm.editor import models
from llm_fsm.editor.routes import figures, files, pages, talks, texts
from llm_fsm.editor.studio import Studio
from llm_fsm.editor.talks import Talks
from llm_fsm.editor.trouble import problem_of
from llm_fsm.server.app import Compressed
from llm_fsm.server.encoding import Json
from llm_fsm.server.guard import RequestGuard
from llm_fsm.server.http_rules import HttpRules
from llm_fsm.server.limits import Limits
from llm_fsm.server.openapi import SETTINGS, describe
from llm_fsm.server.problems import CHANNELS, Problem, answer_errors
from llm_fsm.server.tokens import ALL_RIGHTS, Caller, Token, Tokens

LIMITS = Limits(body_bytes=50_000_000, body_seconds=60.0, shutdown_seconds=5.0)
"""A text of 10 MB may be several times as long as JSON."""
_ABOUT = """The studio of llm-fsm: files of one folder, and a playground for them.

Each request but those of the page carries the token of the address as `Authorization: Bearer TOKEN`. Errors are
problem documents (RFC 9457). A save that meets another version answers 409 with the member `conflict`."""


def create_studio(studio: Studio, *, token: str) -> FastAPI:
    """Make the ASGI application of a studio.

    Args:
        studio: Its folder, models and store.
        token: The token that each request must carry.

    Returns:
        The application. Serve it on a loopback address alone.

    Example:
        app = create_studio(Studio(folder=Folder("bots")), token=secrets.token_urlsafe(32))
    """
    open_talks = Talks(studio)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await open_talks.close()

    app = FastAPI(
        title="llm-fsm studio",
        lifespan=lifespan,
        default_response_class=Json,
        version=__version__,
        description=_ABOUT,
        **SETTINGS,
    )
    app.include_router(files.router(studio))
    app.include_router(texts.router(studio))
    app.include_router(talks.router(open_talks))
    app.include_router(figures.router(studio))
    app.include_router(pages.router(), include_in_schema=False)
    answer_errors(app, lambda _, error: problem_of(error))
    app.add_exception_handler(UnicodeEncodeError, _answer_half)
    describe(app, needs_token=True)
    _add_models(app)
    app.add_middleware(Compressed, minimum_size=1_000)
    app.add_middleware(HttpRules, routes=app.router.routes, foreign=CHANNELS)
    digest = sha256_of(token)
    known = Tokens([Token(name="studio", sha256=digest, rights=ALL_RIGHTS, own=False)])
    app.add_middleware(
        RequestGuard, limits=LIMITS, tokens=known, hosts=(), origins=(), enter=_admit
    )
    return app


def _admit(caller: Caller, *, reads: bool) -> None:
    """Let every request of the one page in."""


def _add_models(app: FastAPI) -> None:
    """Put all shapes of the contract into the OpenAPI document, those of streams, too."""
    made = app.openapi

    def openapi() -> JsonDict:
        document = made()
        schemas = document["components"]["schemas"]
        for name, schema in _all_shapes().items():
            schemas.setdefault(name, schema)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _all_shapes() -> JsonDict:
    shapes = [
        value
        for value in vars(models).values()
        if inspect.isclass(value) and issubclass(value, BaseModel)
    ]
    own = [(shape, "validation") for shape in shapes if shape.__module__ == models.__name__]
    _, found = models_json_schema(own, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    defined: JsonDict = found["$defs"]
    return {name: schema for name, schema in defined.items() if not name.startswith("_")}


async def _answer_half(request: Request, _: Exception) -> Response:
    words = "half a character (a lone surrogate) cannot be sent; write the whole one"
    return Problem("invalid", words).response(request.scope)

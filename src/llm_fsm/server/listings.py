"""The REST door for many conversations: find, count and delete them by filters."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from starlette.responses import Response

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.engine.pauses import PauseKind
from llm_fsm.server import views
from llm_fsm.server.encoding import Json
from llm_fsm.server.http_rules import MAX_NAME
from llm_fsm.server.problems import Problem
from llm_fsm.server.rest import caller_of
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Caller
from llm_fsm.stores.base import ANY_PAUSE, ListQuery, checked_metadata

_LABEL = "metadata."
"""The beginning of parameters that are labels, as in `metadata.user=ada`."""


def _moment(given: object) -> object:
    """Read a time: seconds since the epoch, or a date and time of RFC 3339. Raises ValueError."""
    if not isinstance(given, str):
        return given
    try:
        seconds = float(given)
    except ValueError:
        # an unescaped + arrives as a space
        moment = datetime.fromisoformat(given.replace(" ", "+"))
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise ValueError("a time is a number of seconds, or a date and time")
    return seconds


Moment = Annotated[
    float | None,
    BeforeValidator(_moment),
    Field(
        default=None,
        description="Seconds since the epoch, or a date and time such as 2026-11-27T18:00:00Z.",
    ),
]
Name = Annotated[str | None, Field(default=None, max_length=MAX_NAME)]


class FilterRequest(BaseModel):
    """The conversations that are meant. Filters join. `metadata.KEY=TEXT` filters by a label, such
    as `metadata.user`.
    """

    model_config = ConfigDict(extra="allow")

    definition: Name
    state: Name
    ended: bool | None = None
    updated_since: Moment
    updated_before: Moment

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.model_extra or {}:
            if not name.startswith(_LABEL):
                raise ValueError(f"there is no parameter {name!r:.80}; labels begin with {_LABEL}")
        for text in (self.definition, self.state):
            if text is not None and not text.isprintable():
                raise ValueError("names have no control characters")
        checked_metadata(self.metadata)
        return self

    @property
    def metadata(self) -> JsonMap:
        """The labels, by key."""
        return {name.removeprefix(_LABEL): text for name, text in (self.model_extra or {}).items()}

    def query(self, **more: Any) -> ListQuery:
        """Return the query of these filters, with further settings."""
        return ListQuery(
            definition=self.definition,
            state=self.state,
            ended=self.ended,
            metadata=self.metadata,
            updated_since=self.updated_since,
            updated_before=self.updated_before,
            **more,
        )


class ListRequest(FilterRequest):
    """A page of conversations. `after`: `next` of the page before. `count`: also count all that
    match.
    """

    after: str | None = Field(default=None, max_length=250)
    limit: int = Field(default=100, ge=1, le=1000)
    order: Literal["id", "updated", "-updated"] = "id"
    count: bool = False


class PausesRequest(FilterRequest):
    """A page of pauses, the longest untouched first. `after`: `next` of the page before. `kind`:
    only of this kind.
    """

    kind: PauseKind | None = None
    after: str | None = Field(default=None, max_length=250)
    limit: int = Field(default=100, ge=1, le=1000)

    @property
    def order(self) -> Literal["updated"]:
        """The order of the list."""
        return "updated"


class PausesView(BaseModel):
    """A page of pauses. `next`: pass it as `after` for the next page; null at the end."""

    pauses: list[views.OpenPauseView]
    next: str | None


class ListView(BaseModel):
    """A page of conversations. `next`: pass it as `after` for the next page; null at the end.
    `count`: if asked for.
    """

    conversations: list[views.ListedView]
    next: str | None
    count: int | None = None


class DeletedView(BaseModel):
    """The number of conversations that were deleted."""

    deleted: int


def listings(service: Service) -> APIRouter:
    """Return the routes of this door over a service."""
    router = APIRouter()
    tag: list[Any] = ["conversations"]

    @router.get(
        "/conversations", tags=tag, summary="List and count conversations", response_model=ListView
    )
    async def list_conversations(
        request: Request, wish: Annotated[ListRequest, Query()]
    ) -> Response:
        caller = caller_of(request)
        lines = await service.listed(caller, _page(wish, caller))
        page = [
            views.listed_of(caller.public(line.conversation_id), line)
            for line in lines[: wish.limit]
        ]
        more = len(lines) > wish.limit
        found: JsonDict = {"conversations": page, "next": _next(page[-1], wish) if more else None}
        if wish.count:
            found["count"] = await service.counted(caller, wish.query())
        return Json(found)

    @router.get(
        "/pauses", tags=tag, summary="List what waits for an answer", response_model=PausesView
    )
    @router.get("/v1/pauses", include_in_schema=False)
    async def list_pauses(request: Request, wish: Annotated[PausesRequest, Query()]) -> Response:
        caller = caller_of(request)
        found = await service.paused(caller, _page(wish, caller, paused=wish.kind or ANY_PAUSE))
        page = []
        for served, pause in found[: wish.limit]:
            shown = await service.shown(served)
            page.append(shown.document(views.open_pause_of(served, pause)))
        last = found[wish.limit - 1][1] if len(found) > wish.limit else None
        more = None if last is None else f"{last.updated!r}:{caller.public(last.conversation_id)}"
        return Json({"pauses": page, "next": more})

    @router.delete(
        "/conversations",
        tags=tag,
        summary="Delete all conversations that match, for good",
        response_model=DeletedView,
    )
    async def delete_conversations(
        request: Request, wish: Annotated[FilterRequest, Query()]
    ) -> Response:
        query = wish.query()
        if query == ListQuery():
            raise Problem(
                "invalid", "say which conversations to delete: give a filter, such as metadata.user"
            )
        return Json({"deleted": await service.delete_all(caller_of(request), query)})

    return router


def _next(line: JsonMap, wish: ListRequest) -> str:
    """Return the place of a line in its listing."""
    return str(line["id"]) if wish.order == "id" else f"{line['updated']!r}:{line['id']}"


def _page(wish: ListRequest | PausesRequest, caller: Caller, **more: Any) -> ListQuery:
    """Return the query of a page, with one line more to see whether another page follows."""
    name, time = _place(wish)
    stored = None if name is None else caller.stored(name)
    return wish.query(
        after=stored, after_updated=time, order=wish.order, limit=wish.limit + 1, **more
    )


def _place(wish: ListRequest | PausesRequest) -> tuple[str | None, float | None]:
    """Return id and time of the last line of the page before. Raises Problem 422."""
    if wish.after is None:
        return None, None
    if not wish.after.isprintable():
        raise Problem("invalid", "ids have no control characters")
    if wish.order == "id":
        return wish.after, None
    time, mark, name = wish.after.partition(":")
    try:
        seconds = float(time)
    except ValueError:
        seconds = math.nan
    if not mark or not math.isfinite(seconds):
        raise Problem("invalid", "pass `next` of the page before as `after`")
    return name, seconds
